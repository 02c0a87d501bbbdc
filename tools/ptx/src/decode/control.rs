//! Branches and ends.

use super::Decoder;
use super::modifiers::Modifiers;
use crate::error::PtxError;
use crate::parse::syntax::{Operand, Statement};
use crate::program::{ControlOp, Op};

impl<'a> Decoder<'_, 'a> {
    /// Targets are numbers of statements until all of them are decoded.
    pub(super) fn control(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        match m.head {
            "bra" => {
                m.allow(&["uni"])?;
                Ok(Op::Control(ControlOp::Branch { target: self.target(s, 0)? }))
            }
            "brx" => {
                m.allow(&["idx", "uni"])?;
                let index = self.bits(s, 0)?;
                let Operand::Name(name) = *self.operand(s, 1) else {
                    return Err(self.misfit(s, 1, "a branch table"));
                };
                let undeclared = |name: &str| PtxError::Undeclared { line: s.line, name: name.to_owned() };
                let labels = self.function.table(s.scope, name).ok_or_else(|| undeclared(name))?;
                let start = self.code.targets.len() as u32;
                for label in labels {
                    let target = self.function.label(s.scope, label).ok_or_else(|| undeclared(label))?;
                    self.code.targets.push(target as u32);
                }
                Ok(Op::Control(ControlOp::BranchTable { index, start, len: labels.len() as u32 }))
            }
            "trap" => Ok(Op::Control(ControlOp::Trap)),
            _ => {
                m.allow(&["uni"])?;
                Ok(Op::Control(ControlOp::Exit))
            }
        }
    }

    fn target(&self, s: &Statement<'a>, place: usize) -> Result<u32, PtxError> {
        let Operand::Name(name) = *self.operand(s, place) else {
            return Err(self.misfit(s, place, "a label"));
        };
        match self.function.label(s.scope, name) {
            Some(statement) => Ok(statement as u32),
            None => Err(PtxError::Undeclared { line: s.line, name: name.to_owned() }),
        }
    }
}

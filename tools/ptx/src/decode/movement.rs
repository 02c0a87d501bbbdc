//! Moves, vectors of pieces, and addresses between state spaces.

use super::Decoder;
use super::modifiers::{Modifiers, Type};
use crate::error::PtxError;
use crate::parse::syntax::{Operand, Statement};
use crate::program::{Condition, ControlOp, DataOp, Logic, MemoryOp, Op, Slot, Space};

impl<'a> Decoder<'_, 'a> {
    pub(super) fn movement(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        self.takes(s, m, 2..=2)?;
        match m.head {
            "mov" => self.mov(s, m),
            "cvta" => self.convert_address(s, m),
            _ => {
                let d = self.to_pred_of(s, 0, self.operand(s, 0))?;
                Ok(Op::Memory(MemoryOp::IsSpace { space: m.space(), d, a: self.long(s, 1)? }))
            }
        }
    }

    fn mov(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        m.allow(&[])?;
        let ty = m.ty()?;
        if ty == Type::Pred {
            let a = self.condition(s, 1)?;
            let d = self.to_pred_of(s, 0, self.operand(s, 0))?;
            return Ok(Op::Data(DataOp::PredLogic { op: Logic::And, d, a, b: Condition::ALWAYS }));
        }
        if let Operand::Vector(parts) = self.operand(s, 0) {
            let bits = self.piece(s, m, 0, parts.len())?;
            let slots =
                parts.iter().map(|part| self.to_slot(s, 0, part, bits)).collect::<Result<Vec<_>, _>>()?;
            return Ok(Op::Data(DataOp::Unpack { a: self.value(s, 1, ty)?, parts: self.list(&slots) }));
        }
        if let Operand::Vector(parts) = self.operand(s, 1) {
            let piece = Type::Int { bits: self.piece(s, m, 1, parts.len())?, signed: false };
            let mut slots = Vec::new();
            for part in parts {
                slots.push(Slot::Word(self.word_of(s, 1, part, piece)?));
            }
            let d = self.to_slot(s, 0, self.operand(s, 0), ty.bits())?;
            return Ok(Op::Data(DataOp::Pack { d, parts: self.list(&slots) }));
        }
        if let Operand::Name("%clock" | "%clock64" | "%globaltimer" | "%globaltimer_lo") = self.operand(s, 1)
        {
            return Ok(Op::Control(ControlOp::Clock {
                d: self.to_slot(s, 0, self.operand(s, 0), ty.bits())?,
            }));
        }
        match self.value(s, 1, ty)? {
            Slot::Word(a) => Ok(Op::Data(DataOp::MoveWord { d: self.to_word(s, 0)?, a })),
            Slot::Long(a) => Ok(Op::Data(DataOp::MoveLong { d: self.to_long(s, 0)?, a })),
        }
    }

    /// Bits of each of several pieces of a value.
    fn piece(
        &self,
        s: &Statement<'a>,
        m: &Modifiers<'a>,
        place: usize,
        parts: usize,
    ) -> Result<u8, PtxError> {
        match (m.ty()?.bits(), parts) {
            (64, 2) => Ok(32),
            (64, 4) | (32, 2) => Ok(16),
            (32, 4) => Ok(8),
            _ => Err(self.misfit(s, place, "a vector of two or four pieces")),
        }
    }

    fn convert_address(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        m.allow(&["to", "global", "const", "shared", "shared::cta", "local", "param", "param::entry"])?;
        let (ty, space) = (m.ty()?, m.space());
        if ty.bits() != 64 || space == Space::Generic {
            return Err(m.unsupported());
        }
        let (d, a) = (self.to_long(s, 0)?, self.long(s, 1)?);
        Ok(match space {
            // Global addresses are generic ones.
            Space::Global => Op::Data(DataOp::MoveLong { d, a }),
            _ if m.has("to") => Op::Memory(MemoryOp::FromGeneric { space, d, a }),
            _ => Op::Memory(MemoryOp::ToGeneric { space, d, a }),
        })
    }
}

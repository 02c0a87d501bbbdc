//! Instructions that exchange values between the lanes of a warp.

use super::Decoder;
use super::modifiers::{Modifiers, Type};
use crate::error::PtxError;
use crate::parse::syntax::{Operand, Statement};
use crate::program::{ControlOp, ExchangeOp, Op, Reduction, Shuffle, Vote, Word};

impl<'a> Decoder<'_, 'a> {
    pub(super) fn collective(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        match m.head {
            "activemask" => Ok(Op::Control(ControlOp::ActiveMask { d: self.to_word(s, 0)? })),
            "shfl" => self.shuffle(s, m),
            "vote" => self.vote(s, m),
            "match" => self.matching(s, m),
            "redux" => self.redux(s, m),
            _ => {
                m.allow(&["sync"])?;
                let members = self.bits(s, 1)?;
                let (d, elected) = match self.operand(s, 0) {
                    Operand::Pair(first, second) => {
                        (self.to_word_of(s, 0, first)?, self.to_pred_of(s, 0, second)?)
                    }
                    _ => return Err(self.misfit(s, 0, "a register and a predicate")),
                };
                Ok(Op::Exchange(ExchangeOp::Elect { d, elected, members }))
            }
        }
    }

    fn shuffle(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        m.allow(&["sync", "idx", "up", "down", "bfly"])?;
        self.takes(s, m, 5..=5)?;
        let mode = m.pick(&[
            ("idx", Shuffle::Index),
            ("up", Shuffle::Up),
            ("down", Shuffle::Down),
            ("bfly", Shuffle::Butterfly),
        ])?;
        let (d, in_range) = self.to_pair(s)?;
        let (a, b, clamp) = (self.bits(s, 1)?, self.bits(s, 2)?, self.bits(s, 3)?);
        Ok(Op::Exchange(ExchangeOp::Shuffle { mode, d, in_range, a, b, clamp, members: self.bits(s, 4)? }))
    }

    fn vote(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        m.allow(&["sync", "all", "any", "uni", "ballot"])?;
        self.takes(s, m, 3..=3)?;
        let (a, members) = (self.condition(s, 1)?, self.bits(s, 2)?);
        if m.has("ballot") {
            return Ok(Op::Exchange(ExchangeOp::Ballot { d: self.to_word(s, 0)?, a, members }));
        }
        let vote = m.pick(&[("all", Vote::All), ("any", Vote::Any), ("uni", Vote::Uniform)])?;
        Ok(Op::Exchange(ExchangeOp::Vote { vote, d: self.to_pred_of(s, 0, self.operand(s, 0))?, a, members }))
    }

    fn matching(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        m.allow(&["sync", "any", "all"])?;
        self.takes(s, m, 3..=3)?;
        let (a, members) = (self.value(s, 1, m.ty()?)?, self.bits(s, 2)?);
        if m.has("any") {
            return Ok(Op::Exchange(ExchangeOp::MatchAny { d: self.to_word(s, 0)?, a, members }));
        }
        let (d, all) = self.to_pair(s)?;
        Ok(Op::Exchange(ExchangeOp::MatchAll { d, all, a, members }))
    }

    fn redux(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        m.allow(&["sync", "add", "min", "max", "and", "or", "xor"])?;
        let signed = match m.ty()? {
            Type::Int { bits: 32, signed } => signed,
            _ => return Err(m.unsupported()),
        };
        let op = m.pick(&[
            ("add", Reduction::Add),
            ("min", Reduction::Min { signed }),
            ("max", Reduction::Max { signed }),
            ("and", Reduction::And),
            ("or", Reduction::Or),
            ("xor", Reduction::Xor),
        ])?;
        let (d, a): (Word, Word) = (self.to_word(s, 0)?, self.bits(s, 1)?);
        Ok(Op::Exchange(ExchangeOp::Redux { op, d, a, members: self.bits(s, 2)? }))
    }
}

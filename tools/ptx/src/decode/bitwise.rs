//! Bits: logic, shifts, counts and fields.

use super::Decoder;
use super::modifiers::{Modifiers, Type};
use crate::error::PtxError;
use crate::parse::syntax::{Operand, Statement};
use crate::program::{Condition, Count, DataOp, Int, IntBinary, IntUnary, IntegerOp, Logic, Op};

impl<'a> Decoder<'_, 'a> {
    pub(super) fn bitwise(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        if !matches!(m.head, "bfind" | "shf") {
            m.allow(&[])?;
        }
        match m.head {
            "and" | "or" | "xor" | "not" if m.ty()? == Type::Pred => self.predicate_logic(s, m),
            "and" => self.int_binary(s, m, IntBinary::And),
            "or" => self.int_binary(s, m, IntBinary::Or),
            "xor" => self.int_binary(s, m, IntBinary::Xor),
            "not" => self.int_unary(s, m, IntUnary::Not),
            "cnot" => self.int_unary(s, m, IntUnary::LogicalNot),
            "brev" => self.int_unary(s, m, IntUnary::Reverse),
            "shl" | "shr" => self.shift(s, m),
            "popc" => self.count(s, m, Count::Population),
            "clz" => self.count(s, m, Count::LeadingZeros),
            "bfind" => {
                m.allow(&["shiftamt"])?;
                let signed = matches!(m.ty()?, Type::Int { signed: true, .. });
                self.count(s, m, Count::Find { signed, shift: m.has("shiftamt") })
            }
            "bfe" | "bfi" => self.field(s, m),
            _ => self.three_words(s, m),
        }
    }

    fn predicate_logic(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        let d = self.to_pred_of(s, 0, self.operand(s, 0))?;
        let a = self.condition(s, 1)?;
        let (op, b) = match m.head {
            // Not a is a xor true.
            "not" => (Logic::Xor, Condition::ALWAYS),
            "and" => (Logic::And, self.condition(s, 2)?),
            "or" => (Logic::Or, self.condition(s, 2)?),
            _ => (Logic::Xor, self.condition(s, 2)?),
        };
        Ok(Op::Data(DataOp::PredLogic { op, d, a, b }))
    }

    fn shift(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        self.takes(s, m, 3..=3)?;
        let op = if m.head == "shl" { IntBinary::ShiftLeft } else { IntBinary::ShiftRight };
        let (ty, by) = (m.ty()?, self.bits(s, 2)?);
        Ok(match m.int()? {
            int @ (Int::U64 | Int::S64) => Op::Integer(IntegerOp::ShiftLong {
                op,
                signed: int == Int::S64,
                d: self.to_long(s, 0)?,
                a: self.long(s, 1)?,
                by,
            }),
            int => Op::Integer(IntegerOp::Words {
                op,
                int,
                d: self.to_word(s, 0)?,
                a: self.word(s, 1, ty)?,
                b: by,
            }),
        })
    }

    fn count(&mut self, s: &Statement<'a>, m: &Modifiers<'a>, op: Count) -> Result<Op, PtxError> {
        let d = self.to_word(s, 0)?;
        match m.int()? {
            Int::U64 | Int::S64 => Ok(Op::Integer(IntegerOp::CountLong { op, d, a: self.long(s, 1)? })),
            Int::U32 | Int::S32 => Ok(Op::Integer(IntegerOp::CountWord { op, d, a: self.bits(s, 1)? })),
            Int::U16 | Int::S16 => Err(m.unsupported()),
        }
    }

    fn field(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        let int = m.int()?;
        let at = if m.head == "bfe" { 2 } else { 3 };
        let (position, length) = (self.bits(s, at)?, self.bits(s, at + 1)?);
        let signed = matches!(int, Int::S32 | Int::S64);
        Ok(match (m.head, int) {
            (_, Int::U16 | Int::S16) => return Err(m.unsupported()),
            ("bfe", Int::U32 | Int::S32) => Op::Integer(IntegerOp::ExtractWord {
                signed,
                d: self.to_word(s, 0)?,
                a: self.bits(s, 1)?,
                position,
                length,
            }),
            ("bfe", _) => Op::Integer(IntegerOp::ExtractLong {
                signed,
                d: self.to_long(s, 0)?,
                a: self.long(s, 1)?,
                position,
                length,
            }),
            (_, Int::U32 | Int::S32) => {
                let (d, field, a) = (self.to_word(s, 0)?, self.bits(s, 1)?, self.bits(s, 2)?);
                Op::Integer(IntegerOp::InsertWord { d, field, a, position, length })
            }
            _ => {
                let (d, field, a) = (self.to_long(s, 0)?, self.long(s, 1)?, self.long(s, 2)?);
                Op::Integer(IntegerOp::InsertLong { d, field, a, position, length })
            }
        })
    }

    /// `prmt`, `lop3` and `shf`, which take three words.
    fn three_words(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        let d = self.to_word(s, 0)?;
        let (a, b, c) = (self.bits(s, 1)?, self.bits(s, 2)?, self.bits(s, 3)?);
        match m.head {
            "prmt" => Ok(Op::Integer(IntegerOp::Permute { d, a, b, selector: c })),
            "lop3" => match *self.operand(s, 4) {
                Operand::Integer(table) => {
                    Ok(Op::Integer(IntegerOp::Lop3 { d, a, b, c, table: table as u8 }))
                }
                _ => Err(self.misfit(s, 4, "a truth table")),
            },
            _ => {
                m.allow(&["l", "r", "wrap", "clamp"])?;
                Ok(Op::Integer(IntegerOp::Funnel {
                    left: m.has("l"),
                    wrap: m.has("wrap"),
                    d,
                    low: a,
                    high: b,
                    by: c,
                }))
            }
        }
    }
}

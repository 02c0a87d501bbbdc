//! Comparisons, selections and tests.

use super::Decoder;
use super::modifiers::{Modifiers, Type};
use crate::error::PtxError;
use crate::parse::syntax::{Operand, Statement};
use crate::program::{
    Comparison, Condition, DataOp, FloatOp, HalfKind, Int, Logic, Op, Operands, Pred, Relation, SetTo, Slot,
    Test,
};

impl<'a> Decoder<'_, 'a> {
    pub(super) fn compare(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        match m.head {
            "setp" => self.set_predicate(s, m),
            "set" => self.set(s, m),
            "selp" => self.select(s, m),
            _ => self.test(s, m),
        }
    }

    fn set_predicate(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        let comparison = self.comparison(s, m)?;
        let (logic, with) = self.combined(s, m)?;
        let (d, not_d) = match self.operand(s, 0) {
            Operand::Pair(first, second) => (self.to_pred_of(s, 0, first)?, self.to_pred_of(s, 0, second)?),
            single => (self.to_pred_of(s, 0, single)?, Pred::SINK),
        };
        Ok(Op::Data(DataOp::SetPred { comparison, d, not_d, logic, with }))
    }

    fn set(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        let comparison = self.comparison(s, m)?;
        let (logic, with) = self.combined(s, m)?;
        let to = match m.types.first() {
            Some(Type::F32) => SetTo::One(1f32.to_bits()),
            Some(Type::Half(HalfKind::F16)) => SetTo::One(0x3c00),
            Some(Type::Half(HalfKind::Bf16)) => SetTo::One(0x3f80),
            Some(Type::Int { bits: 32, .. }) => SetTo::Ones,
            _ => return Err(m.unsupported()),
        };
        Ok(Op::Data(DataOp::Set { comparison, to, d: self.to_word(s, 0)?, logic, with }))
    }

    /// The predicate that the result of a comparison is combined with; true where there is none.
    fn combined(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<(Logic, Condition), PtxError> {
        if s.operands.len() < 4 {
            self.takes(s, m, 3..=3)?;
            return Ok((Logic::And, Condition::ALWAYS));
        }
        let logic = m.pick(&[("and", Logic::And), ("or", Logic::Or), ("xor", Logic::Xor)])?;
        Ok((logic, self.condition(s, 3)?))
    }

    fn comparison(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Comparison, PtxError> {
        let Some((&name, others)) = m.rest.split_first() else { return Err(m.unsupported()) };
        if others.iter().any(|part| !["and", "or", "xor", "ftz"].contains(part)) {
            return Err(m.unsupported());
        }
        let ty = m.ty()?;
        let float = !matches!(ty, Type::Int { .. });
        let (relation, unordered) = relation(name, float).ok_or_else(|| m.unsupported())?;
        let operands = match ty {
            Type::F64 => Operands::F64 { a: self.long(s, 1)?, b: self.long(s, 2)? },
            Type::F32 => Operands::F32 { a: self.word(s, 1, ty)?, b: self.word(s, 2, ty)? },
            Type::Half(kind) => Operands::Half { kind, a: self.word(s, 1, ty)?, b: self.word(s, 2, ty)? },
            _ => match m.int()? {
                int @ (Int::U64 | Int::S64) => {
                    Operands::Longs { signed: int == Int::S64, a: self.long(s, 1)?, b: self.long(s, 2)? }
                }
                int => Operands::Words { int, a: self.word(s, 1, ty)?, b: self.word(s, 2, ty)? },
            },
        };
        Ok(Comparison { relation, unordered, flush: m.has("ftz"), operands })
    }

    fn select(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        m.allow(&[])?;
        self.takes(s, m, 4..=4)?;
        let (ty, by) = (m.ty()?, self.pred(s, 3)?);
        Ok(match (self.value(s, 1, ty)?, self.value(s, 2, ty)?) {
            (Slot::Word(a), Slot::Word(b)) => {
                Op::Data(DataOp::SelectWord { d: self.to_word(s, 0)?, a, b, by })
            }
            (Slot::Long(a), Slot::Long(b)) => {
                Op::Data(DataOp::SelectLong { d: self.to_long(s, 0)?, a, b, by })
            }
            _ => return Err(m.unsupported()),
        })
    }

    fn test(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        let test = m.pick(&[
            ("finite", Test::Finite),
            ("infinite", Test::Infinite),
            ("number", Test::Number),
            ("notanumber", Test::NotANumber),
            ("normal", Test::Normal),
            ("subnormal", Test::Subnormal),
        ])?;
        let d = self.to_pred_of(s, 0, self.operand(s, 0))?;
        match m.ty()? {
            Type::F32 => Ok(Op::Float(FloatOp::TestF32 { test, d, a: self.bits(s, 1)? })),
            Type::F64 => Ok(Op::Float(FloatOp::TestF64 { test, d, a: self.long(s, 1)? })),
            _ => Err(m.unsupported()),
        }
    }
}

/// A comparison's name, and whether it is true of NaNs.
fn relation(name: &str, float: bool) -> Option<(Relation, bool)> {
    Some(match name {
        "eq" => (Relation::Equal, false),
        // Of integers there is always an order.
        "ne" => (Relation::NotEqual, false),
        "lt" | "lo" => (Relation::Less, false),
        "le" | "ls" => (Relation::LessEqual, false),
        "gt" | "hi" => (Relation::Greater, false),
        "ge" | "hs" => (Relation::GreaterEqual, false),
        "equ" if float => (Relation::Equal, true),
        "neu" if float => (Relation::NotEqual, true),
        "ltu" if float => (Relation::Less, true),
        "leu" if float => (Relation::LessEqual, true),
        "gtu" if float => (Relation::Greater, true),
        "geu" if float => (Relation::GreaterEqual, true),
        "num" if float => (Relation::Ordered, false),
        "nan" if float => (Relation::Unordered, true),
        _ => return None,
    })
}

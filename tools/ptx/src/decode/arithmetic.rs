//! Integer and float arithmetic.

use super::Decoder;
use super::modifiers::{Modifiers, Type};
use crate::error::PtxError;
use crate::number::rounding::Round;
use crate::parse::syntax::Statement;
use crate::program::{FloatBinary, FloatOp, FloatUnary, Int, IntBinary, IntUnary, IntegerOp, Op};

impl<'a> Decoder<'_, 'a> {
    pub(super) fn arithmetic(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        match m.ty()? {
            Type::Int { .. } => self.integer(s, m),
            Type::F32 | Type::F64 | Type::Half(_) | Type::HalfPair(_) => self.float(s, m),
            Type::Pred | Type::Tf32 => Err(m.unsupported()),
        }
    }

    fn integer(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        match m.head {
            "add" | "sub" | "addc" | "subc" if m.has("cc") || m.head.ends_with('c') => self.carry(s, m),
            "mul" | "mad" if m.has("wide") => self.wide(s, m),
            "mad" => {
                m.allow(&["lo", "hi"])?;
                self.mad(s, m)
            }
            "neg" | "abs" => {
                m.allow(&[])?;
                let op = if m.head == "neg" { IntUnary::Neg } else { IntUnary::Abs };
                self.int_unary(s, m, op)
            }
            _ => {
                let op = match m.head {
                    "add" => IntBinary::Add,
                    "sub" => IntBinary::Sub,
                    "mul" if m.has("hi") => IntBinary::MulHigh,
                    "mul" if m.has("lo") => IntBinary::Mul,
                    "div" => IntBinary::Div,
                    "rem" => IntBinary::Rem,
                    "min" => IntBinary::Min,
                    "max" => IntBinary::Max,
                    _ => return Err(m.unsupported()),
                };
                m.allow(if m.head == "mul" { &["lo", "hi"] } else { &[] })?;
                self.int_binary(s, m, op)
            }
        }
    }

    pub(super) fn int_binary(
        &mut self,
        s: &Statement<'a>,
        m: &Modifiers<'a>,
        op: IntBinary,
    ) -> Result<Op, PtxError> {
        self.takes(s, m, 3..=3)?;
        let ty = m.ty()?;
        Ok(match m.int()? {
            int @ (Int::U64 | Int::S64) => Op::Integer(IntegerOp::Longs {
                op,
                signed: int == Int::S64,
                d: self.to_long(s, 0)?,
                a: self.long(s, 1)?,
                b: self.long(s, 2)?,
            }),
            int => Op::Integer(IntegerOp::Words {
                op,
                int,
                d: self.to_word(s, 0)?,
                a: self.word(s, 1, ty)?,
                b: self.word(s, 2, ty)?,
            }),
        })
    }

    pub(super) fn int_unary(
        &mut self,
        s: &Statement<'a>,
        m: &Modifiers<'a>,
        op: IntUnary,
    ) -> Result<Op, PtxError> {
        self.takes(s, m, 2..=2)?;
        let ty = m.ty()?;
        Ok(match m.int()? {
            Int::U64 | Int::S64 => {
                Op::Integer(IntegerOp::LongUnary { op, d: self.to_long(s, 0)?, a: self.long(s, 1)? })
            }
            int => {
                Op::Integer(IntegerOp::WordUnary { op, int, d: self.to_word(s, 0)?, a: self.word(s, 1, ty)? })
            }
        })
    }

    fn mad(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        self.takes(s, m, 4..=4)?;
        let (high, ty) = (m.has("hi"), m.ty()?);
        Ok(match m.int()? {
            int @ (Int::U64 | Int::S64) => Op::Integer(IntegerOp::MadLong {
                high,
                signed: int == Int::S64,
                d: self.to_long(s, 0)?,
                a: self.long(s, 1)?,
                b: self.long(s, 2)?,
                c: self.long(s, 3)?,
            }),
            int => Op::Integer(IntegerOp::MadWord {
                high,
                int,
                d: self.to_word(s, 0)?,
                a: self.word(s, 1, ty)?,
                b: self.word(s, 2, ty)?,
                c: self.word(s, 3, ty)?,
            }),
        })
    }

    fn wide(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        m.allow(&["wide"])?;
        let (mad, ty) = (m.head == "mad", m.ty()?);
        self.takes(s, m, if mad { 4..=4 } else { 3..=3 })?;
        let int = m.int()?;
        let (a, b) = (self.word(s, 1, ty)?, self.word(s, 2, ty)?);
        match int {
            Int::U16 | Int::S16 => {
                let c = if mad { self.bits(s, 3)? } else { self.word_constant(0) };
                Ok(Op::Integer(IntegerOp::WideWord {
                    signed: int == Int::S16,
                    d: self.to_word(s, 0)?,
                    a,
                    b,
                    c,
                }))
            }
            Int::U32 | Int::S32 => {
                let c = if mad { self.long(s, 3)? } else { self.long_constant(0) };
                Ok(Op::Integer(IntegerOp::WideLong {
                    signed: int == Int::S32,
                    d: self.to_long(s, 0)?,
                    a,
                    b,
                    c,
                }))
            }
            Int::U64 | Int::S64 => Err(m.unsupported()),
        }
    }

    fn carry(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        m.allow(&["cc"])?;
        self.takes(s, m, 3..=3)?;
        let (subtract, carry_in, carry_out) = (m.head.starts_with("sub"), m.head.ends_with('c'), m.has("cc"));
        match m.int()? {
            Int::U32 | Int::S32 => Ok(Op::Integer(IntegerOp::CarryWord {
                subtract,
                carry_in,
                carry_out,
                d: self.to_word(s, 0)?,
                a: self.bits(s, 1)?,
                b: self.bits(s, 2)?,
            })),
            Int::U64 | Int::S64 => Ok(Op::Integer(IntegerOp::CarryLong {
                subtract,
                carry_in,
                carry_out,
                d: self.to_long(s, 0)?,
                a: self.long(s, 1)?,
                b: self.long(s, 2)?,
            })),
            Int::U16 | Int::S16 => Err(m.unsupported()),
        }
    }

    fn float(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        let binary = match m.head {
            "fma" | "mad" => return self.fma(s, m),
            "add" => FloatBinary::Add,
            "sub" => FloatBinary::Sub,
            "mul" => FloatBinary::Mul,
            "div" => FloatBinary::Div,
            "min" => FloatBinary::Min,
            "max" => FloatBinary::Max,
            "copysign" => FloatBinary::CopySign,
            _ => return self.float_unary(s, m),
        };
        self.takes(s, m, 3..=3)?;
        let (mode, ty) = (m.mode()?, m.ty()?);
        // Only sums and products are computed with directed rounding.
        if mode.round != Round::Nearest
            && !matches!(binary, FloatBinary::Add | FloatBinary::Sub | FloatBinary::Mul)
        {
            return Err(m.unsupported());
        }
        if ty == Type::F64 {
            let (a, b) = (self.long(s, 1)?, self.long(s, 2)?);
            return Ok(Op::Float(FloatOp::F64Binary { op: binary, mode, d: self.to_long(s, 0)?, a, b }));
        }
        let (d, a, b) = (self.to_word(s, 0)?, self.word(s, 1, ty)?, self.word(s, 2, ty)?);
        match ty {
            Type::F32 => Ok(Op::Float(FloatOp::F32Binary { op: binary, mode, d, a, b })),
            Type::Half(kind) => {
                Ok(Op::Float(FloatOp::HalfBinary { op: binary, kind, pair: false, mode, d, a, b }))
            }
            Type::HalfPair(kind) => {
                Ok(Op::Float(FloatOp::HalfBinary { op: binary, kind, pair: true, mode, d, a, b }))
            }
            _ => Err(m.unsupported()),
        }
    }

    fn fma(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        self.takes(s, m, 4..=4)?;
        let (mode, ty) = (m.mode()?, m.ty()?);
        if ty == Type::F64 {
            let (a, b, c) = (self.long(s, 1)?, self.long(s, 2)?, self.long(s, 3)?);
            return Ok(Op::Float(FloatOp::F64Fma { mode, d: self.to_long(s, 0)?, a, b, c }));
        }
        let d = self.to_word(s, 0)?;
        let (a, b, c) = (self.word(s, 1, ty)?, self.word(s, 2, ty)?, self.word(s, 3, ty)?);
        match ty {
            Type::F32 => Ok(Op::Float(FloatOp::F32Fma { mode, d, a, b, c })),
            Type::Half(kind) => Ok(Op::Float(FloatOp::HalfFma { kind, pair: false, mode, d, a, b, c })),
            Type::HalfPair(kind) => Ok(Op::Float(FloatOp::HalfFma { kind, pair: true, mode, d, a, b, c })),
            _ => Err(m.unsupported()),
        }
    }

    fn float_unary(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        self.takes(s, m, 2..=2)?;
        let op = match m.head {
            "neg" => FloatUnary::Neg,
            "abs" => FloatUnary::Abs,
            "sqrt" => FloatUnary::Sqrt,
            "rsqrt" => FloatUnary::InverseSqrt,
            "rcp" => FloatUnary::Reciprocal,
            "ex2" => FloatUnary::Exp2,
            "lg2" => FloatUnary::Log2,
            "sin" => FloatUnary::Sin,
            "cos" => FloatUnary::Cos,
            "tanh" => FloatUnary::Tanh,
            _ => return Err(m.unsupported()),
        };
        let (mode, ty) = (m.mode()?, m.ty()?);
        if mode.round != Round::Nearest {
            return Err(m.unsupported());
        }
        if ty == Type::F64 {
            return Ok(Op::Float(FloatOp::F64Unary {
                op,
                mode,
                d: self.to_long(s, 0)?,
                a: self.long(s, 1)?,
            }));
        }
        let (d, a) = (self.to_word(s, 0)?, self.word(s, 1, ty)?);
        match ty {
            Type::F32 => Ok(Op::Float(FloatOp::F32Unary { op, mode, d, a })),
            Type::Half(kind) => Ok(Op::Float(FloatOp::HalfUnary { op, kind, pair: false, mode, d, a })),
            Type::HalfPair(kind) => Ok(Op::Float(FloatOp::HalfUnary { op, kind, pair: true, mode, d, a })),
            _ => Err(m.unsupported()),
        }
    }
}

//! `cvt`.

use super::Decoder;
use super::modifiers::{Modifiers, Type};
use crate::error::PtxError;
use crate::number::rounding::Round;
use crate::parse::syntax::Statement;
use crate::program::{Conversion, FloatOp, Integral, Number, Op};

impl<'a> Decoder<'_, 'a> {
    pub(super) fn convert(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        let &[to, from] = m.types.as_slice() else { return Err(m.unsupported()) };
        m.allow(&["rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "ftz", "sat", "relu"])?;
        let mode = m.mode_unchecked();
        if let Type::HalfPair(kind) = to {
            // The first operand goes to the upper half.
            self.takes(s, m, 3..=3)?;
            if from != Type::F32 || !matches!(mode.round, Round::Nearest | Round::Zero) {
                return Err(m.unsupported());
            }
            let (a, b) = (self.bits(s, 1)?, self.bits(s, 2)?);
            return Ok(Op::Float(FloatOp::ConvertPair { kind, mode, d: self.to_word(s, 0)?, a, b }));
        }
        self.takes(s, m, 2..=2)?;
        if to == Type::Tf32 {
            if from != Type::F32 || !(m.has("rna") || m.has("rn")) || mode.saturate {
                return Err(m.unsupported());
            }
            let (d, a) = (self.to_word(s, 0)?, self.bits(s, 1)?);
            return Ok(Op::Float(FloatOp::ConvertTf32 { away: m.has("rna"), relu: mode.relu, d, a }));
        }
        let (Some(to_number), Some(from_number)) = (to.number(), from.number()) else {
            return Err(m.unsupported());
        };
        let integral = [
            ("rni", Integral::Nearest),
            ("rzi", Integral::Zero),
            ("rmi", Integral::Down),
            ("rpi", Integral::Up),
        ];
        let conversion = Conversion {
            to: to_number,
            from: from_number,
            mode,
            integral: m.pick(&integral).ok(),
            fill: self.declared_bits(self.operand(s, 0)).map_or(to.bits(), |bits| bits as u8),
        };
        let d = self.to_slot(s, 0, self.operand(s, 0), to.bits())?;
        // Registers wider than the type give their low bits.
        let a = match self.declared_bits(self.operand(s, 1)) {
            Some(64) => self.value(s, 1, Type::F64)?,
            Some(_) => self.value(s, 1, Type::F32)?,
            None if matches!(from_number, Number::Int { bits: 64, .. } | Number::F64) => {
                self.value(s, 1, Type::F64)?
            }
            None => self.value(s, 1, from)?,
        };
        Ok(Op::Float(FloatOp::Convert { conversion, d, a }))
    }
}

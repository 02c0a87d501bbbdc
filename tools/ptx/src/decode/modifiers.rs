//! An opcode in its parts: `setp.lt.and.f32` is `setp` with modifiers and types.

use crate::error::PtxError;
use crate::number::rounding::Round;
use crate::parse::syntax::Statement;
use crate::program::{HalfKind, Int, Mode, Number, Space};

/// A type of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Pred,
    /// `.b`, `.u` and `.s`; bits without a sign count as unsigned.
    Int {
        bits: u8,
        signed: bool,
    },
    Half(HalfKind),
    HalfPair(HalfKind),
    F32,
    F64,
    Tf32,
}

impl Type {
    fn of(name: &str) -> Option<Type> {
        Some(match name {
            "pred" => Type::Pred,
            "b8" | "u8" => Type::Int { bits: 8, signed: false },
            "b16" | "u16" => Type::Int { bits: 16, signed: false },
            "b32" | "u32" => Type::Int { bits: 32, signed: false },
            "b64" | "u64" => Type::Int { bits: 64, signed: false },
            "s8" => Type::Int { bits: 8, signed: true },
            "s16" => Type::Int { bits: 16, signed: true },
            "s32" => Type::Int { bits: 32, signed: true },
            "s64" => Type::Int { bits: 64, signed: true },
            "f16" => Type::Half(HalfKind::F16),
            "bf16" => Type::Half(HalfKind::Bf16),
            "f16x2" => Type::HalfPair(HalfKind::F16),
            "bf16x2" => Type::HalfPair(HalfKind::Bf16),
            "f32" => Type::F32,
            "f64" => Type::F64,
            "tf32" => Type::Tf32,
            _ => return None,
        })
    }

    pub(super) fn bits(self) -> u8 {
        match self {
            Type::Pred => 1,
            Type::Int { bits, .. } => bits,
            Type::Half(_) => 16,
            Type::HalfPair(_) | Type::F32 | Type::Tf32 => 32,
            Type::F64 => 64,
        }
    }

    /// As an integer of 16 bits or more.
    pub(super) fn int(self) -> Option<Int> {
        Some(match self {
            Type::Int { bits: 16, signed: false } => Int::U16,
            Type::Int { bits: 16, signed: true } => Int::S16,
            Type::Int { bits: 32, signed: false } => Int::U32,
            Type::Int { bits: 32, signed: true } => Int::S32,
            Type::Int { bits: 64, signed: false } => Int::U64,
            Type::Int { bits: 64, signed: true } => Int::S64,
            _ => return None,
        })
    }

    pub(super) fn number(self) -> Option<Number> {
        Some(match self {
            Type::Int { bits, signed } => Number::Int { bits, signed },
            Type::Half(HalfKind::F16) => Number::F16,
            Type::Half(HalfKind::Bf16) => Number::Bf16,
            Type::F32 => Number::F32,
            Type::F64 => Number::F64,
            Type::Pred | Type::HalfPair(_) | Type::Tf32 => return None,
        })
    }
}

/// The parts of a statement's opcode.
pub(super) struct Modifiers<'a> {
    line: u32,
    opcode: &'a str,
    pub(super) head: &'a str,
    pub(super) rest: Vec<&'a str>,
    pub(super) types: Vec<Type>,
}

impl<'a> Modifiers<'a> {
    pub(super) fn of(statement: &Statement<'a>) -> Modifiers<'a> {
        let mut parts = statement.opcode.split('.');
        let head = parts.next().unwrap_or_default();
        let (mut rest, mut types) = (Vec::new(), Vec::new());
        for part in parts {
            match Type::of(part) {
                Some(ty) => types.push(ty),
                None => rest.push(part),
            }
        }
        Modifiers { line: statement.line, opcode: statement.opcode, head, rest, types }
    }

    pub(super) fn unsupported(&self) -> PtxError {
        PtxError::Unsupported { line: self.line, instruction: self.opcode.to_owned() }
    }

    pub(super) fn has(&self, modifier: &str) -> bool {
        self.rest.contains(&modifier)
    }

    /// Refuses an instruction with a modifier besides these: ignoring one could change what it computes.
    pub(super) fn allow(&self, modifiers: &[&str]) -> Result<(), PtxError> {
        if self.rest.iter().all(|part| modifiers.contains(part)) { Ok(()) } else { Err(self.unsupported()) }
    }

    /// The one type, or the last of several.
    pub(super) fn ty(&self) -> Result<Type, PtxError> {
        self.types.last().copied().ok_or_else(|| self.unsupported())
    }

    pub(super) fn int(&self) -> Result<Int, PtxError> {
        self.ty()?.int().ok_or_else(|| self.unsupported())
    }

    /// Picks the meaning of the one modifier that is in the table.
    pub(super) fn pick<T: Copy>(&self, table: &[(&str, T)]) -> Result<T, PtxError> {
        let found = table.iter().find(|(name, _)| self.has(name));
        found.map(|&(_, meaning)| meaning).ok_or_else(|| self.unsupported())
    }

    /// Modifiers of float arithmetic, all others refused.
    pub(super) fn mode(&self) -> Result<Mode, PtxError> {
        self.allow(&["rn", "rz", "rm", "rp", "ftz", "sat", "NaN", "relu", "approx", "full"])?;
        Ok(self.mode_unchecked())
    }

    /// The same, where other modifiers are looked at elsewhere.
    pub(super) fn mode_unchecked(&self) -> Mode {
        let round = if self.has("rz") {
            Round::Zero
        } else if self.has("rm") {
            Round::Down
        } else if self.has("rp") {
            Round::Up
        } else {
            Round::Nearest
        };
        Mode {
            round,
            flush: self.has("ftz"),
            saturate: self.has("sat"),
            keep_nan: self.has("NaN"),
            relu: self.has("relu"),
        }
    }

    /// The state space, generic where none is named.
    pub(super) fn space(&self) -> Space {
        let has = |names: &[&str]| names.iter().any(|name| self.has(name));
        if has(&["shared", "shared::cta"]) {
            Space::Shared
        } else if has(&["global", "const"]) {
            Space::Global
        } else if has(&["local"]) {
            Space::Local
        } else if has(&["param", "param::entry"]) {
            Space::Parameter
        } else {
            Space::Generic
        }
    }
}

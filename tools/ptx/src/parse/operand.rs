//! Operands of instructions.

use super::Parser;
use super::registers::Registers;
use super::syntax::Operand;
use crate::error::PtxError;
use crate::parse::token::Token;

impl<'a> Parser<'_, 'a> {
    /// The operands up to the semicolon.
    pub(super) fn operands(
        &mut self,
        opcode: &str,
        registers: &Registers<'a>,
    ) -> Result<Vec<Operand<'a>>, PtxError> {
        let mut operands = Vec::new();
        while !self.take(';') {
            operands.push(self.operand(opcode, registers)?);
            if !self.take(',') && self.peek() != Some(Token::Mark(';')) {
                return Err(self.unexpected("`,` or `;`"));
            }
        }
        Ok(operands)
    }

    fn operand(&mut self, opcode: &str, registers: &Registers<'a>) -> Result<Operand<'a>, PtxError> {
        let line = self.line();
        let unsupported = || PtxError::Unsupported { line, instruction: opcode.to_owned() };
        match self.peek() {
            Some(Token::Mark('{')) => {
                self.at += 1;
                let mut parts = Vec::new();
                while !self.take('}') {
                    parts.push(self.operand(opcode, registers)?);
                    self.take(',');
                }
                Ok(Operand::Vector(parts))
            }
            Some(Token::Mark('[')) => {
                self.at += 1;
                let base = self.atom(registers)?;
                let (base, mut offset) = match base {
                    Operand::Sum(name, offset) => (Operand::Name(name), offset),
                    base => (base, 0),
                };
                if self.take('+') {
                    offset = self.signed()?;
                }
                // What follows a comma is a tensor's coordinates.
                if !self.take(']') {
                    return Err(unsupported());
                }
                Ok(Operand::Address(Box::new(base), offset))
            }
            Some(Token::Mark('!')) => {
                self.at += 1;
                match self.atom(registers)? {
                    Operand::Register(register) => Ok(Operand::Not(register)),
                    _ => Err(self.unexpected("a predicate after `!`")),
                }
            }
            // The parameter lists of `call`.
            Some(Token::Mark('(')) => Err(unsupported()),
            _ => {
                let first = self.atom(registers)?;
                if !self.take('|') {
                    return Ok(first);
                }
                Ok(Operand::Pair(Box::new(first), Box::new(self.atom(registers)?)))
            }
        }
    }

    /// An operand of one word or number.
    fn atom(&mut self, registers: &Registers<'a>) -> Result<Operand<'a>, PtxError> {
        let atom = match self.peek() {
            Some(Token::Word("_")) => Operand::Sink,
            Some(Token::Word(name)) => {
                self.at += 1;
                return match registers.find(name) {
                    Some(register) => Ok(Operand::Register(register)),
                    None if self.take('+') => Ok(Operand::Sum(name, self.signed()?)),
                    None => Ok(Operand::Name(name)),
                };
            }
            Some(Token::Single(bits)) => Operand::Single(bits),
            Some(Token::Double(value)) => Operand::Double(value),
            Some(Token::Integer(value)) => Operand::Integer(value),
            Some(Token::Mark('-')) => {
                self.at += 1;
                match self.peek() {
                    Some(Token::Integer(value)) => Operand::Integer(value.wrapping_neg()),
                    Some(Token::Double(value)) => Operand::Double(-value),
                    _ => return Err(self.unexpected("a number")),
                }
            }
            _ => return Err(self.unexpected("an operand")),
        };
        self.at += 1;
        Ok(atom)
    }

    fn signed(&mut self) -> Result<i64, PtxError> {
        let negative = self.take('-');
        let value = self.integer("an offset")? as i64;
        Ok(if negative { value.wrapping_neg() } else { value })
    }
}

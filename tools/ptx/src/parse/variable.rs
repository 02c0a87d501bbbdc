//! Variables: `.param`, `.global`, `.const`, `.shared` and `.local` declarations.

use super::syntax::{Function, Parameter, Source, Symbol};
use super::{Parser, register_type};
use crate::error::PtxError;
use crate::parse::token::Token;

/// A variable's declaration without its initialiser.
struct Variable<'a> {
    name: &'a str,
    align: usize,
    element: usize,
    /// Elements; none for an array of unknown length.
    count: Option<usize>,
}

impl Variable<'_> {
    /// Puts the variable behind what is there: its offset and the new end.
    fn place(&self, end: usize) -> (usize, usize) {
        let offset = end.next_multiple_of(self.align);
        (offset, offset + self.element * self.count.unwrap_or(0))
    }
}

impl<'a> Parser<'_, 'a> {
    /// From the state space to the name and its dimensions.
    fn variable(&mut self) -> Result<Variable<'a>, PtxError> {
        self.at += 1;
        let (mut align, mut lanes, mut element, mut pointer) = (None, 1, None, false);
        let name = loop {
            let line = self.line();
            match self.word("a variable")? {
                ".align" => {
                    let bytes = self.integer("an alignment")? as usize;
                    // Behind `.ptr` it is the alignment of what the parameter points to.
                    align = if pointer { align } else { Some(bytes) };
                }
                ".ptr" => pointer = true,
                ".v2" => lanes = 2,
                ".v4" => lanes = 4,
                // The state space of what a pointer parameter points to.
                ".global" | ".const" | ".shared" | ".local" => {}
                word if word.starts_with('.') => match register_type(word) {
                    Some((_, bits)) if bits >= 8 => element = Some(bits as usize / 8),
                    _ => return Err(PtxError::Declaration { line, declaration: word.to_owned() }),
                },
                name => break name,
            }
        };
        let element = lanes * element.ok_or_else(|| self.unexpected("a type before the name"))?;
        let mut count = Some(1);
        while self.take('[') {
            if self.take(']') {
                count = None;
                continue;
            }
            let length = self.integer("a length")? as usize;
            count = count.map(|count| count * length);
            self.expect(']', "`]`")?;
        }
        Ok(Variable { name, align: align.unwrap_or(element).max(1), element, count })
    }

    /// The parameters of a kernel, after the parenthesis.
    pub(super) fn parameters(&mut self, function: &mut Function<'a>) -> Result<(), PtxError> {
        let mut end = 0;
        while !self.take(')') {
            if self.peek() != Some(Token::Word(".param")) {
                return Err(self.unexpected("`.param`"));
            }
            let variable = self.variable()?;
            let (offset, new_end) = variable.place(end);
            function.parameters.push(Parameter { offset, bytes: new_end - offset });
            function.symbols.insert(variable.name, Symbol::Parameter(offset));
            end = new_end;
            self.take(',');
        }
        Ok(())
    }

    /// A variable of the module.
    pub(super) fn module_variable(&mut self, source: &mut Source<'a>) -> Result<(), PtxError> {
        let shared = self.peek() == Some(Token::Word(".shared"));
        let variable = self.variable()?;
        if shared {
            // Static shared memory of the module is given its place by each kernel; NVRTC has demoted it by then.
            if variable.count.is_some() {
                let declaration = format!(".shared {}", variable.name);
                return Err(PtxError::Declaration { line: self.line(), declaration });
            }
            source.symbols.insert(variable.name, Symbol::DynamicShared);
            return self.expect(';', "`;`");
        }
        let (offset, end) = variable.place(source.data.bytes.len());
        source.data.bytes.resize(end, 0);
        if self.take('=') {
            self.initialiser(source, &mut { offset }, variable.element)?;
        }
        source.symbols.insert(variable.name, Symbol::Module(offset));
        self.expect(';', "`;`")
    }

    /// A value or a braced list of them, written at `at`, which moves on.
    fn initialiser(&mut self, source: &mut Source<'a>, at: &mut usize, bytes: usize) -> Result<(), PtxError> {
        if self.take('{') {
            while !self.take('}') {
                self.initialiser(source, at, bytes)?;
                self.take(',');
            }
            return Ok(());
        }
        let negative = self.take('-');
        let value = match self.peek() {
            Some(Token::Integer(value)) if negative => value.wrapping_neg(),
            Some(Token::Integer(value)) => value,
            Some(Token::Single(bits)) => u64::from(bits),
            Some(Token::Double(value)) if bytes == 4 => u64::from((value as f32).to_bits()),
            Some(Token::Double(value)) => value.to_bits(),
            Some(Token::Word(name)) if !negative && bytes == 8 => {
                let Some(&Symbol::Module(target)) = source.symbols.get(name) else {
                    return Err(PtxError::Undeclared { line: self.line(), name: name.to_owned() });
                };
                source.data.pointers.push((*at, target));
                0
            }
            _ => return Err(self.unexpected("an initial value")),
        };
        self.at += 1;
        let Some(place) = source.data.bytes.get_mut(*at..*at + bytes) else {
            return Err(self.unexpected("no more initial values than elements"));
        };
        place.copy_from_slice(&value.to_le_bytes()[..bytes]);
        *at += bytes;
        Ok(())
    }

    /// `.shared` or `.local` in a body.
    pub(super) fn body_variable(&mut self, function: &mut Function<'a>) -> Result<(), PtxError> {
        let local = self.peek() == Some(Token::Word(".local"));
        let variable = self.variable()?;
        let symbol = if local {
            let (offset, end) = variable.place(function.local_bytes);
            function.local_bytes = end;
            Symbol::Local(offset)
        } else if variable.count.is_some() {
            let (offset, end) = variable.place(function.shared_bytes);
            function.shared_bytes = end;
            Symbol::Shared(offset)
        } else {
            Symbol::DynamicShared
        };
        function.symbols.insert(variable.name, symbol);
        self.expect(';', "`;`")
    }
}

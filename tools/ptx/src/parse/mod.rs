//! PTX text to [`syntax`]: module level here, bodies of functions in [`body`].

mod body;
mod operand;
mod registers;
pub(crate) mod syntax;
mod token;
mod variable;

use crate::error::PtxError;
use syntax::{Class, Function, Source};
use token::{Placed, Token, tokens};

/// Reads a module.
pub(crate) fn parse(text: &str) -> Result<Source<'_>, PtxError> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, at: 0 };
    let mut source = Source::default();
    while let Some(token) = parser.peek() {
        match token {
            Token::Word(".version" | ".target" | ".address_size" | ".file" | ".loc") => parser.skip_line(),
            Token::Word(".visible" | ".weak" | ".common") => parser.at += 1,
            // An external variable other than dynamic shared memory has no storage in this module.
            Token::Word(".extern") => parser.external(&mut source)?,
            Token::Word(".section") => parser.skip_section()?,
            Token::Word(".pragma") => parser.skip_statement(),
            Token::Word(".global" | ".const" | ".shared") => parser.module_variable(&mut source)?,
            Token::Word(".entry") => {
                let function = parser.entry(&source)?;
                source.functions.push(function);
            }
            Token::Word(".func") => parser.skip_function()?,
            _ => return Err(parser.unexpected("a directive")),
        }
    }
    Ok(source)
}

/// A place in the tokens of a module.
struct Parser<'t, 'a> {
    tokens: &'t [Placed<'a>],
    at: usize,
}

impl<'a> Parser<'_, 'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).map(|&(token, _)| token)
    }

    fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |&(_, line)| line)
    }

    /// The error that the next token is not what the grammar has here.
    fn unexpected(&self, expected: &'static str) -> PtxError {
        let found = match self.peek() {
            None => "the end of the text".to_owned(),
            Some(Token::Word(text) | Token::Text(text)) => text.to_owned(),
            Some(Token::Mark(mark)) => mark.to_string(),
            Some(Token::Integer(value)) => value.to_string(),
            Some(Token::Single(bits)) => f32::from_bits(bits).to_string(),
            Some(Token::Double(value)) => value.to_string(),
        };
        PtxError::Syntax { line: self.line(), expected, found }
    }

    fn take(&mut self, mark: char) -> bool {
        let found = self.peek() == Some(Token::Mark(mark));
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, mark: char, expected: &'static str) -> Result<(), PtxError> {
        if self.take(mark) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn word(&mut self, expected: &'static str) -> Result<&'a str, PtxError> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    fn integer(&mut self, expected: &'static str) -> Result<u64, PtxError> {
        match self.peek() {
            Some(Token::Integer(value)) => {
                self.at += 1;
                Ok(value)
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    /// Directives that end with their line have no other mark at their end.
    fn skip_line(&mut self) {
        let line = self.line();
        while self.at < self.tokens.len() && self.line() == line {
            self.at += 1;
        }
    }

    fn skip_statement(&mut self) {
        while self.peek().is_some() && !self.take(';') {
            self.at += 1;
        }
    }

    /// Debugging sections.
    fn skip_section(&mut self) -> Result<(), PtxError> {
        while self.peek().is_some_and(|token| token != Token::Mark('{')) {
            self.at += 1;
        }
        self.skip_braces()
    }

    fn skip_braces(&mut self) -> Result<(), PtxError> {
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                None => return Err(self.unexpected("a closing brace")),
                Some(Token::Mark('{')) => depth += 1,
                Some(Token::Mark('}')) => depth -= 1,
                Some(_) => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Device functions are only of use to `call`, which is refused where it stands.
    fn skip_function(&mut self) -> Result<(), PtxError> {
        while !matches!(self.peek(), None | Some(Token::Mark(';' | '{'))) {
            self.at += 1;
        }
        if self.take(';') { Ok(()) } else { self.skip_braces() }
    }

    fn external(&mut self, source: &mut Source<'a>) -> Result<(), PtxError> {
        self.at += 1;
        match self.peek() {
            Some(Token::Word(".shared")) => self.module_variable(source),
            Some(Token::Word(".func")) => self.skip_function(),
            _ => Err(self.unexpected("`.shared` or `.func`")),
        }
    }

    /// From `.entry` to the end of the body.
    fn entry(&mut self, source: &Source<'a>) -> Result<Function<'a>, PtxError> {
        self.at += 1;
        let mut function = Function { name: self.word("the name of a kernel")?, ..Function::default() };
        if self.take('(') {
            self.parameters(&mut function)?;
        }
        self.directives(&mut function)?;
        self.body(&mut function, source)?;
        Ok(function)
    }

    fn directives(&mut self, function: &mut Function<'a>) -> Result<(), PtxError> {
        while let Some(Token::Word(directive)) = self.peek() {
            self.at += 1;
            let mut sizes = Vec::new();
            while let Some(Token::Integer(size)) = self.peek() {
                sizes.push(size);
                self.at += 1;
                self.take(',');
            }
            match directive {
                ".maxntid" | ".reqntid" => {
                    function.max_threads =
                        Some(sizes.iter().product::<u64>().min(u64::from(u32::MAX)) as u32);
                }
                ".minnctapersm" | ".maxnreg" | ".maxnctapersm" => {}
                ".pragma" => self.skip_statement(),
                _ => {
                    let declaration = directive.to_owned();
                    return Err(PtxError::Declaration { line: self.line(), declaration });
                }
            }
        }
        Ok(())
    }
}

/// The class and the bits of a type, given with its dot.
fn register_type(name: &str) -> Option<(Class, u32)> {
    Some(match name {
        ".pred" => (Class::Predicate, 1),
        ".b8" | ".u8" | ".s8" => (Class::Word, 8),
        ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => (Class::Word, 16),
        ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" | ".bf16x2" => (Class::Word, 32),
        ".b64" | ".u64" | ".s64" | ".f64" => (Class::Long, 64),
        _ => return None,
    })
}

//! The body of a function: declarations, blocks, labels and instructions.

use super::registers::Registers;
use super::syntax::{Declared, Function, Scope, Source, Statement};
use super::{Parser, register_type};
use crate::error::PtxError;
use crate::parse::token::Token;

/// Where the parser is in a body.
struct Cursor<'a> {
    registers: Registers<'a>,
    scope: usize,
}

impl<'a> Parser<'_, 'a> {
    /// Reads a body from its opening brace to its closing one.
    pub(super) fn body(&mut self, function: &mut Function<'a>, source: &Source<'a>) -> Result<(), PtxError> {
        self.expect('{', "the body of a kernel")?;
        // Names of the module that the kernel does not hide.
        for (&name, &symbol) in &source.symbols {
            function.symbols.entry(name).or_insert(symbol);
        }
        function.scopes.push(Scope::default());
        let mut cursor = Cursor { registers: Registers::default(), scope: 0 };
        cursor.registers.open();
        let mut depth = 1;
        while depth > 0 {
            if self.take('{') {
                depth += 1;
                cursor.registers.open();
                function.scopes.push(Scope { parent: Some(cursor.scope), ..Scope::default() });
                cursor.scope = function.scopes.len() - 1;
            } else if self.take('}') {
                depth -= 1;
                cursor.registers.close();
                cursor.scope = function.scopes[cursor.scope].parent.unwrap_or(0);
            } else if !self.take(';') {
                self.statement(function, &mut cursor)?;
            }
        }
        function.registers = cursor.registers.declared;
        Ok(())
    }

    fn statement(&mut self, function: &mut Function<'a>, cursor: &mut Cursor<'a>) -> Result<(), PtxError> {
        match self.peek() {
            Some(Token::Word(".reg")) => self.register_declaration(&mut cursor.registers),
            Some(Token::Word(".shared" | ".local")) => self.body_variable(function),
            // `.extern .shared` may stand in a body.
            Some(Token::Word(".extern")) => {
                self.at += 1;
                Ok(())
            }
            Some(Token::Word(".loc" | ".file")) => {
                self.skip_line();
                Ok(())
            }
            Some(Token::Word(".pragma")) => {
                self.skip_statement();
                Ok(())
            }
            Some(Token::Word(name))
                if self.tokens.get(self.at + 1).map(|t| t.0) == Some(Token::Mark(':')) =>
            {
                self.at += 2;
                self.label(name, function, cursor)
            }
            Some(Token::Word(_) | Token::Mark('@')) => self.instruction(function, cursor),
            _ => Err(self.unexpected("an instruction")),
        }
    }

    fn register_declaration(&mut self, registers: &mut Registers<'a>) -> Result<(), PtxError> {
        self.at += 1;
        let line = self.line();
        let name = self.word("a type")?;
        let Some((class, bits)) = register_type(name) else {
            return Err(PtxError::Declaration { line, declaration: format!(".reg {name}") });
        };
        while !self.take(';') {
            let name = self.word("the name of a register")?;
            let mut count = None;
            if self.take('<') {
                count = Some(self.integer("how many registers")? as u32);
                self.expect('>', "`>`")?;
            }
            registers.declare(name, count, Declared { class, bits });
            self.take(',');
        }
        Ok(())
    }

    fn label(
        &mut self,
        name: &'a str,
        function: &mut Function<'a>,
        cursor: &mut Cursor<'a>,
    ) -> Result<(), PtxError> {
        if self.peek() != Some(Token::Word(".branchtargets")) {
            let next = function.statements.len();
            function.scopes[cursor.scope].labels.insert(name, next);
            return Ok(());
        }
        self.at += 1;
        let mut targets = Vec::new();
        while !self.take(';') {
            targets.push(self.word("a label")?);
            self.take(',');
        }
        function.scopes[cursor.scope].tables.insert(name, targets);
        Ok(())
    }

    fn instruction(&mut self, function: &mut Function<'a>, cursor: &mut Cursor<'a>) -> Result<(), PtxError> {
        let mut guard = None;
        if self.take('@') {
            let negated = self.take('!');
            let line = self.line();
            let name = self.word("a predicate")?;
            let Some(register) = cursor.registers.find(name) else {
                return Err(PtxError::Undeclared { line, name: name.to_owned() });
            };
            guard = Some((register, negated));
        }
        let line = self.line();
        let opcode = self.word("an opcode")?;
        if opcode.starts_with('.') {
            return Err(PtxError::Declaration { line, declaration: opcode.to_owned() });
        }
        let operands = self.operands(opcode, &cursor.registers)?;
        function.statements.push(Statement { line, guard, opcode, operands, scope: cursor.scope });
        Ok(())
    }
}

//! The names of registers, by the braced block that declares them.

use std::collections::HashMap;

use super::syntax::{Declared, Register};

/// The registers declared so far. Blocks that are closed have taken their names along.
#[derive(Default)]
pub(super) struct Registers<'a> {
    scopes: Vec<Names<'a>>,
    pub(super) declared: Vec<Declared>,
}

#[derive(Default)]
struct Names<'a> {
    single: HashMap<&'a str, u32>,
    /// `%r<10>`: the first register and how many there are.
    families: HashMap<&'a str, (u32, u32)>,
}

impl<'a> Registers<'a> {
    pub(super) fn open(&mut self) {
        self.scopes.push(Names::default());
    }

    pub(super) fn close(&mut self) {
        self.scopes.pop();
    }

    /// Declares one register, or with a count the family `name0`, `name1`, ….
    pub(super) fn declare(&mut self, name: &'a str, count: Option<u32>, declared: Declared) {
        let first = self.declared.len() as u32;
        self.declared.resize(self.declared.len() + count.unwrap_or(1) as usize, declared);
        if let Some(names) = self.scopes.last_mut() {
            match count {
                Some(count) => {
                    names.families.insert(name, (first, count));
                }
                None => {
                    names.single.insert(name, first);
                }
            }
        }
    }

    /// The register of a name, from the innermost block outwards.
    pub(super) fn find(&self, name: &str) -> Option<Register> {
        let family = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let index = name[family.len()..].parse::<u32>().ok();
        self.scopes.iter().rev().find_map(|names| {
            if let Some(&register) = names.single.get(name) {
                return Some(Register(register));
            }
            let &(first, count) = names.families.get(family)?;
            index.filter(|&index| index < count).map(|index| Register(first + index))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::syntax::Class;

    #[test]
    fn inner_blocks_hide_outer_names_until_they_close() {
        let word = Declared { class: Class::Word, bits: 32 };
        let mut registers = Registers::default();
        registers.open();
        registers.declare("%r", Some(3), word);
        registers.declare("p", None, word);
        registers.open();
        registers.declare("p", None, word);
        assert_eq!(registers.find("p"), Some(Register(4)));
        assert_eq!(registers.find("%r2"), Some(Register(2)));
        assert_eq!(registers.find("%r3"), None);
        registers.close();
        assert_eq!(registers.find("p"), Some(Register(3)));
    }
}

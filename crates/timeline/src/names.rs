use std::collections::HashMap;

/// The number of a text in [`Names`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(u32);

impl Name {
    /// The empty text: unknown.
    pub const NONE: Self = Self(0);

    /// The number; 0 is the empty text.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// Interned texts.
#[derive(Clone, Debug, PartialEq)]
pub struct Names {
    texts: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Default for Names {
    fn default() -> Self {
        Self { texts: vec![String::new()], numbers: HashMap::from([(String::new(), 0)]) }
    }
}

impl Names {
    /// The name of `text`, the same for the same text.
    pub fn of(&mut self, text: &str) -> Name {
        if let Some(&number) = self.numbers.get(text) {
            return Name(number);
        }
        let number = self.texts.len() as u32;
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        Name(number)
    }

    /// The text of a name; empty if this table has no such name.
    pub fn text(&self, name: Name) -> &str {
        self.texts.get(name.0 as usize).map_or("", String::as_str)
    }

    /// All texts, by number.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }
}

use crate::{Detokenizer, Tokenizer, Vocabulary};

/// How a model's text becomes tokens, and tokens text.
#[derive(Clone, Debug)]
pub enum TextEncoding {
    /// Characters or words of a vocabulary.
    Listed(Vocabulary),
    /// Byte-pair encoding.
    BytePairs(Tokenizer),
}

impl TextEncoding {
    /// The indices of the tokens of `text`.
    pub fn encode(&self, text: &str) -> Vec<i32> {
        match self {
            Self::Listed(vocabulary) => vocabulary.encode(text),
            // A vocabulary has at most 2²⁴ tokens.
            Self::BytePairs(tokenizer) => tokenizer.encode(text).into_iter().map(u32::cast_signed).collect(),
        }
    }

    /// The parts of `text` that it reads as unknown, each once, in order.
    pub fn unknown_in<'a>(&self, text: &'a str) -> Vec<&'a str> {
        match self {
            Self::Listed(vocabulary) => vocabulary.unknown_in(text),
            Self::BytePairs(_) => Vec::new(),
        }
    }

    /// The token that stands for unknown ones, if there is one.
    pub fn unknown(&self) -> Option<i32> {
        match self {
            Self::Listed(vocabulary) => {
                let index = vocabulary.tokens().iter().position(|token| token == Vocabulary::UNKNOWN)?;
                i32::try_from(index).ok()
            }
            Self::BytePairs(_) => None,
        }
    }

    /// The token that ends a document, if there is one.
    pub fn end_of_document(&self) -> Option<i32> {
        match self {
            Self::Listed(_) => None,
            Self::BytePairs(tokenizer) => tokenizer.end_of_document().map(u32::cast_signed),
        }
    }
}

/// A text that grows token by token.
///
/// ```
/// use oomph_tokens::{Continuation, Level, TextEncoding, Vocabulary};
///
/// let encoding = TextEncoding::Listed(Vocabulary::of(Level::Word, ["to", "be"], 1, 100));
/// let mut text = Continuation::of(&encoding, "to");
/// assert_eq!(text.push(encoding.encode("be")[0]), " be");
/// ```
#[derive(Clone, Debug)]
pub struct Continuation<'a> {
    of: Kind<'a>,
    text: String,
}

#[derive(Clone, Debug)]
enum Kind<'a> {
    Listed(&'a Vocabulary),
    BytePairs(Detokenizer<'a>),
}

impl<'a> Continuation<'a> {
    /// Continues `prompt`. A word may need a space before it.
    pub fn of(encoding: &'a TextEncoding, prompt: &str) -> Self {
        match encoding {
            TextEncoding::Listed(vocabulary) => {
                let text = vocabulary.decode(&vocabulary.encode(prompt));
                Self { of: Kind::Listed(vocabulary), text }
            }
            TextEncoding::BytePairs(tokenizer) => {
                Self { of: Kind::BytePairs(Detokenizer::new(tokenizer)), text: prompt.to_owned() }
            }
        }
    }

    /// Adds a token. Returns the whole characters that are new.
    pub fn push(&mut self, token: i32) -> &str {
        let known = self.text.len();
        match &mut self.of {
            Kind::Listed(vocabulary) => vocabulary.append(&mut self.text, token),
            Kind::BytePairs(detokenizer) => self.text.push_str(&detokenizer.push(token.cast_unsigned())),
        }
        &self.text[known..]
    }

    /// What is left of a character whose bytes are not all there.
    pub fn finish(self) -> String {
        match self.of {
            Kind::Listed(_) => String::new(),
            Kind::BytePairs(detokenizer) => detokenizer.finish(),
        }
    }
}

use crate::Tokenizer;

/// Turns tokens into text one by one. A character whose bytes are in several tokens appears whole, with the last of them.
///
/// ```
/// use oomph_tokens::{Detokenizer, Trainer};
///
/// let tokenizer = Trainer::new().train(257).tokenizer;
/// let mut detokenizer = Detokenizer::new(&tokenizer);
/// let shown: Vec<_> = tokenizer.encode("한a").iter().map(|token| detokenizer.push(*token)).collect();
/// assert_eq!(shown, ["", "", "한", "a"]);
/// assert_eq!(detokenizer.finish(), "");
/// ```
#[derive(Clone, Debug)]
pub struct Detokenizer<'a> {
    tokenizer: &'a Tokenizer,
    /// The first bytes of a character.
    pending: Vec<u8>,
}

impl<'a> Detokenizer<'a> {
    /// For the tokens of a tokenizer.
    pub fn new(tokenizer: &'a Tokenizer) -> Self {
        Self { tokenizer, pending: Vec::new() }
    }

    /// The characters that this token completes. Bytes that are no UTF-8 become `U+FFFD`; an index that there is none of adds
    /// nothing.
    pub fn push(&mut self, token: u32) -> String {
        self.pending.extend_from_slice(self.tokenizer.bytes(token).unwrap_or_default());
        let mut text = String::new();
        loop {
            match std::str::from_utf8(&self.pending) {
                Ok(whole) => {
                    text.push_str(whole);
                    self.pending.clear();
                    return text;
                }
                Err(error) => {
                    let (valid, rest) = self.pending.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    let Some(invalid) = error.error_len() else {
                        self.pending = rest.to_vec();
                        return text;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    self.pending = rest[invalid..].to_vec();
                }
            }
        }
    }

    /// What is left where the text ends: `U+FFFD` for a character that lacks bytes.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }
}

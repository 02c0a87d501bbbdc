use oomph_core::{Generator, Key};

/// Parts of an endless text of tokens.
#[derive(Clone, Copy)]
pub(super) struct SyntheticTokens {
    pub(super) steps: usize,
    pub(super) vocabulary: usize,
}

impl SyntheticTokens {
    /// The part at `index` of the text of this key, and the same part shifted by one token.
    pub(super) fn make(self, text: Key, index: usize) -> [Vec<i32>; 2] {
        let from = index * self.steps;
        let tokens: Vec<_> = (from..=from + self.steps).map(|place| self.token(text, place)).collect();
        [tokens[..self.steps].to_vec(), tokens[1..].to_vec()]
    }

    /// Every second token is random; the token after it is the next one of the vocabulary.
    fn token(self, text: Key, place: usize) -> i32 {
        let drawn = Generator::at(text.with(place as u64 / 2)).below(self.vocabulary);
        ((drawn + place % 2) % self.vocabulary) as i32
    }
}

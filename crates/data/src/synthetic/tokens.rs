use oomph_core::{Generator, Key};

/// Parts of an endless text of tokens.
#[derive(Clone, Copy)]
pub(super) struct Tokens {
    pub(super) steps: usize,
    pub(super) vocabulary: usize,
}

impl Tokens {
    /// The part at `index` of the text of that key, and the same one token on.
    pub(super) fn make(self, text: Key, index: usize) -> [Vec<i32>; 2] {
        let from = index * self.steps;
        let tokens: Vec<_> = (from..=from + self.steps).map(|place| self.token(text, place)).collect();
        [tokens[..self.steps].to_vec(), tokens[1..].to_vec()]
    }

    /// Every second token is drawn, and the one behind it is the next of the vocabulary.
    fn token(self, text: Key, place: usize) -> i32 {
        let drawn = Generator::at(text.with(place as u64 / 2)).below(self.vocabulary);
        ((drawn + place % 2) % self.vocabulary) as i32
    }
}

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// What a token of a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A character.
    Char,
    /// What is between spaces; the end of a line is a token of its own.
    Word,
}

impl Level {
    /// The tokens of `text`.
    ///
    /// ```
    /// use oomph_data::Level;
    ///
    /// assert_eq!(Level::Char.tokens("to be\n").collect::<Vec<_>>(), ["t", "o", " ", "b", "e", "\n"]);
    /// assert_eq!(Level::Word.tokens("to  be,\nor").collect::<Vec<_>>(), ["to", "be,", "\n", "or"]);
    /// ```
    pub fn tokens(self, text: &str) -> Box<dyn Iterator<Item = &str> + '_> {
        match self {
            Self::Char => Box::new(text.char_indices().map(|(at, char)| &text[at..at + char.len_utf8()])),
            Self::Word => Box::new(text.split_inclusive('\n').flat_map(|line| {
                let end = line.ends_with('\n').then_some("\n");
                line.split_whitespace().chain(end)
            })),
        }
    }
}

/// The tokens that a model knows, by index. The first stands for all others.
///
/// ```
/// use oomph_data::{Level, Vocabulary};
///
/// let words: Vec<_> = Level::Word.tokens("the cat saw the dog").collect();
/// let vocabulary = Vocabulary::of(Level::Word, &words, 1, 100);
/// assert_eq!(vocabulary.tokens(), ["<unk>", "the", "cat", "dog", "saw"]);
/// assert_eq!(vocabulary.encode("the mouse saw"), [1, 0, 4]);
/// assert_eq!(vocabulary.decode(&[1, 2]), "the cat");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    level: Level,
    tokens: Vec<String>,
    indices: HashMap<String, i32>,
}

impl Vocabulary {
    /// What stands for a token that is not known.
    pub const UNKNOWN: &str = "<unk>";

    /// The tokens that `text` has at least `min_count` times, the most frequent first and alphabetically among those
    /// alike, at most `most` with the unknown one.
    pub fn of(level: Level, text: &[&str], min_count: usize, most: usize) -> Self {
        let mut counts = HashMap::new();
        for token in text {
            *counts.entry(*token).or_insert(0usize) += 1;
        }
        counts.remove(Self::UNKNOWN);
        let mut known: Vec<_> = counts.into_iter().filter(|(_, count)| *count >= min_count).collect();
        known.sort_unstable_by(|(one, more), (other, less)| less.cmp(more).then(one.cmp(other)));
        known.truncate(most.saturating_sub(1));
        let tokens = std::iter::once(Self::UNKNOWN).chain(known.into_iter().map(|(token, _)| token));
        Self::new(level, tokens.map(str::to_owned).collect())
    }

    /// A vocabulary as it was saved: [`tokens`](Self::tokens).
    pub fn new(level: Level, tokens: Vec<String>) -> Self {
        let indices = tokens.iter().enumerate().map(|(index, token)| (token.clone(), index as i32)).collect();
        Self { level, tokens, indices }
    }

    /// What its tokens are.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The tokens, in the order of their indices.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// The indices of tokens, 0 for those that are not known.
    pub fn indices<'a>(&self, tokens: impl IntoIterator<Item = &'a str>) -> Vec<i32> {
        tokens.into_iter().map(|token| self.indices.get(token).copied().unwrap_or(0)).collect()
    }

    /// The indices of the tokens of `text`.
    pub fn encode(&self, text: &str) -> Vec<i32> {
        self.indices(self.level.tokens(text))
    }

    /// The text of tokens: characters side by side, words with a space between. An index that there is none of is shown
    /// as unknown.
    pub fn decode(&self, indices: &[i32]) -> String {
        let mut text = String::new();
        for index in indices {
            self.append(&mut text, *index);
        }
        text
    }

    /// Adds one more token to a text, as [`decode`](Self::decode) does.
    pub fn append(&self, text: &mut String, index: i32) {
        let known = usize::try_from(index).ok().and_then(|index| self.tokens.get(index));
        let token = known.map_or(Self::UNKNOWN, String::as_str);
        let follows = !text.is_empty() && !text.ends_with('\n');
        if self.level == Level::Word && follows && token != "\n" {
            text.push(' ');
        }
        text.push_str(token);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_text_of_known_characters_comes_back(text in "\\PC{0,40}") {
            let tokens: Vec<_> = Level::Char.tokens(&text).collect();
            let vocabulary = Vocabulary::of(Level::Char, &tokens, 1, usize::MAX);
            prop_assert_eq!(vocabulary.decode(&vocabulary.encode(&text)), text);
        }

        #[test]
        fn words_come_back_with_single_spaces(words in prop::collection::vec("[a-z,]{1,5}|\n", 0..20)) {
            let text = words.join(" ");
            let tokens: Vec<_> = Level::Word.tokens(&text).collect();
            let vocabulary = Vocabulary::of(Level::Word, &tokens, 1, usize::MAX);
            let again = vocabulary.decode(&vocabulary.encode(&text));
            prop_assert_eq!(Level::Word.tokens(&again).collect::<Vec<_>>(), tokens);
        }
    }

    #[test]
    fn rare_tokens_are_unknown() {
        let tokens: Vec<_> = Level::Char.tokens("aaabbc").collect();
        assert_eq!(Vocabulary::of(Level::Char, &tokens, 2, 100).tokens(), ["<unk>", "a", "b"]);
        assert_eq!(Vocabulary::of(Level::Char, &tokens, 1, 2).tokens(), ["<unk>", "a"]);
    }

    #[test]
    fn a_text_that_marks_the_unknown_itself_has_it_once() {
        let tokens: Vec<_> = Level::Word.tokens("a <unk> a").collect();
        let vocabulary = Vocabulary::of(Level::Word, &tokens, 1, 100);
        assert_eq!(vocabulary.tokens(), ["<unk>", "a"]);
        assert_eq!(vocabulary.encode("<unk> b"), [0, 0]);
    }
}

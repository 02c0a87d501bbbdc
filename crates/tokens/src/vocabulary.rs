use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use serde::{Deserialize, Serialize};

/// The kind of tokens in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A character.
    Char,
    /// A word between spaces; the end of a line is a token too.
    Word,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Char => "character",
            Self::Word => "word",
        })
    }
}

impl Level {
    /// The value of `data.level`.
    pub fn key(self) -> &'static str {
        match self {
            Self::Char => "char",
            Self::Word => "word",
        }
    }

    /// The tokens of `text`.
    ///
    /// ```
    /// use oomph_tokens::Level;
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

/// The tokens that a model knows, by index. The token `<unk>` stands for all others.
///
/// ```
/// use oomph_tokens::{Level, Vocabulary};
///
/// let vocabulary = Vocabulary::of(Level::Word, Level::Word.tokens("the cat saw the dog"), 1, 100);
/// assert_eq!(vocabulary.tokens(), ["<unk>", "the", "cat", "dog", "saw"]);
/// assert_eq!(vocabulary.encode("the mouse saw"), [1, 0, 4]);
/// assert_eq!(vocabulary.decode(&[1, 2]), "the cat");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    level: Level,
    tokens: Vec<String>,
    indices: HashMap<String, i32>,
    /// The index of [`UNKNOWN`](Self::UNKNOWN); 0 if a foreign vocabulary has none.
    unknown: i32,
}

impl Vocabulary {
    /// The most tokens.
    pub const MOST_TOKENS: usize = 1 << 24;
    /// The largest file that a vocabulary is read from, in bytes.
    pub const MOST_FILE_BYTES: u64 = 256 << 20;
    /// The token that stands for unknown tokens.
    pub const UNKNOWN: &str = "<unk>";

    /// The tokens with at least `min_count` occurrences in `text`, the most frequent first, then alphabetically; at most
    /// `most` with the unknown one.
    pub fn of<'a>(
        level: Level,
        text: impl IntoIterator<Item = &'a str>,
        min_count: usize,
        most: usize,
    ) -> Self {
        let mut counts = HashMap::new();
        for token in text {
            *counts.entry(token).or_insert(0usize) += 1;
        }
        counts.remove(Self::UNKNOWN);
        let mut known: Vec<_> = counts.into_iter().filter(|(_, count)| *count >= min_count).collect();
        known.sort_unstable_by(|(one, more), (other, less)| less.cmp(more).then(one.cmp(other)));
        known.truncate(most.saturating_sub(1));
        let tokens = std::iter::once(Self::UNKNOWN).chain(known.into_iter().map(|(token, _)| token));
        Self::new(level, tokens.map(str::to_owned).collect())
    }

    /// A vocabulary of saved [`tokens`](Self::tokens).
    pub fn new(level: Level, tokens: Vec<String>) -> Self {
        let indices: HashMap<_, _> =
            tokens.iter().enumerate().map(|(index, token)| (token.clone(), index as i32)).collect();
        let unknown = indices.get(Self::UNKNOWN).copied().unwrap_or(0);
        Self { level, tokens, indices, unknown }
    }

    /// The kind of its tokens.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The tokens, in the order of their indices.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// Whether it has this token.
    pub fn knows(&self, token: &str) -> bool {
        self.indices.contains_key(token)
    }

    /// The indices of tokens; unknown ones have the index of `<unk>`.
    pub fn indices<'a>(&self, tokens: impl IntoIterator<Item = &'a str>) -> Vec<i32> {
        tokens.into_iter().map(|token| self.indices.get(token).copied().unwrap_or(self.unknown)).collect()
    }

    /// The unknown tokens of `text`, each once, in order.
    ///
    /// ```
    /// use oomph_tokens::{Level, Vocabulary};
    ///
    /// let vocabulary = Vocabulary::of(Level::Char, Level::Char.tokens("to be"), 1, 100);
    /// assert_eq!(vocabulary.unknown_in("to see"), ["s"]);
    /// ```
    pub fn unknown_in<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let mut seen = HashSet::new();
        let tokens = self.level.tokens(text);
        tokens.filter(|token| !self.knows(token) && seen.insert(*token)).collect()
    }

    /// The indices of the tokens of `text`.
    pub fn encode(&self, text: &str) -> Vec<i32> {
        self.indices(self.level.tokens(text))
    }

    /// The text of tokens: characters side by side, words with a space between. An index that there is none of is shown
    /// as unknown.
    pub fn decode(&self, indices: &[i32]) -> String {
        let mut text = String::new();
        indices.iter().for_each(|index| self.append(&mut text, *index));
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
            let vocabulary = Vocabulary::of(Level::Char, Level::Char.tokens(&text), 1, usize::MAX);
            prop_assert_eq!(vocabulary.decode(&vocabulary.encode(&text)), text);
        }

        #[test]
        fn words_come_back_with_single_spaces(words in prop::collection::vec("[a-z,]{1,5}|\n", 0..20)) {
            let text = words.join(" ");
            let tokens: Vec<_> = Level::Word.tokens(&text).collect();
            let vocabulary = Vocabulary::of(Level::Word, tokens.iter().copied(), 1, usize::MAX);
            let again = vocabulary.decode(&vocabulary.encode(&text));
            prop_assert_eq!(Level::Word.tokens(&again).collect::<Vec<_>>(), tokens);
        }
    }

    #[test]
    fn rare_tokens_are_unknown() {
        let of = |min_count, most| {
            let vocabulary = Vocabulary::of(Level::Char, Level::Char.tokens("aaabbc"), min_count, most);
            vocabulary.tokens().to_vec()
        };
        assert_eq!(of(2, 100), ["<unk>", "a", "b"]);
        assert_eq!(of(1, 2), ["<unk>", "a"]);
    }

    #[test]
    fn a_text_that_marks_the_unknown_itself_has_it_once() {
        let vocabulary = Vocabulary::of(Level::Word, Level::Word.tokens("a <unk> a"), 1, 100);
        assert_eq!(vocabulary.tokens(), ["<unk>", "a"]);
        assert_eq!(vocabulary.encode("<unk> b"), [0, 0]);
    }
}

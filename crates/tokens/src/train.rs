use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, HashMap},
};

use oomph_core::threads;
use tokenizers::{
    OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, pre_tokenizers::byte_level::ByteLevel,
};

use crate::{
    Tokenizer,
    alphabet::{bytes, bytes_of_characters},
    layout::{Added, Parts},
    pieces::pieces,
    tokenizer::shown_bytes,
};

/// A pair that occurs less often teaches nothing of other texts.
const FEWEST: u64 = 2;

/// Learns byte-pair encoding from a text: the pair of tokens that is most frequent becomes a token, again and again.
///
/// The same text gives the same tokenizer. Of pairs that are equally frequent, the one with the lower indices is joined. The
/// trainer of the crate `tokenizers` is not used, because the order of its hash tables decides where two merges make the same
/// token.
#[derive(Debug, Default)]
pub struct Trainer {
    /// How often each word occurs, by its bytes.
    words: HashMap<Box<[u8]>, u64>,
    bytes: u64,
}

/// A tokenizer, and what it makes of the text that it was learned from.
#[derive(Debug)]
pub struct Trained {
    /// The tokenizer.
    pub tokenizer: Tokenizer,
    /// Tokens of the text.
    pub tokens: u64,
    /// Bytes of the text.
    pub bytes: u64,
}

impl Trainer {
    /// Of no text yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text. [`END_OF_DOCUMENT`](Tokenizer::END_OF_DOCUMENT) in it divides documents.
    pub fn add(&mut self, text: &str) {
        /// Bytes that one thread divides into words at a time.
        const PIECE: usize = 1 << 16;
        for document in text.split(Tokenizer::END_OF_DOCUMENT) {
            self.bytes += document.len() as u64;
            for counts in threads::map(&pieces(document, PIECE), |piece| count_words(piece)) {
                counts.into_iter().for_each(|(word, count)| *self.words.entry(word).or_default() += count);
            }
        }
    }

    /// Learns a vocabulary of `size` tokens, the 256 bytes and [`END_OF_DOCUMENT`](Tokenizer::END_OF_DOCUMENT) among them; fewer
    /// where no pair occurs twice any more.
    ///
    /// # Panics
    /// If `size` is below 257 or above 2²⁴.
    pub fn train(self, size: usize) -> Trained {
        assert!((257..=1 << 24).contains(&size), "size (= {size}) is 257 to 16,777,216");
        let mut merges = Merges::new(self.words);
        // One place is left for the token between documents.
        while merges.tokens.len() + 1 < size && merges.join_next() {}
        let Merges { words, tokens, pairs, .. } = merges;
        let count = words.iter().map(|word| word.count * word.tokens.len() as u64).sum();
        let mut tokens: Vec<_> = tokens.iter().map(|bytes| shown_bytes(bytes)).collect();
        let shown = |index: u32| tokens[index as usize].clone();
        let merges = pairs.iter().map(|&(left, right)| (shown(left), shown(right))).collect();
        let content = Tokenizer::END_OF_DOCUMENT.to_owned();
        // At most 2²⁴ tokens.
        let added = Added { id: tokens.len() as u32, content: content.clone(), special: true };
        tokens.push(content);
        let parts = Parts { tokens, merges, added: vec![added], ignore_merges: false };
        // Every byte is a token, and each merge joins two tokens to a third. No word has the characters of the added token in
        // a row, since documents end there.
        let tokenizer = Tokenizer::of_parts(parts).expect("learned parts agree");
        Trained { tokenizer, tokens: count, bytes: self.bytes }
    }
}

/// How often each word of a text occurs.
fn count_words(text: &str) -> HashMap<Box<[u8]>, u64> {
    let known = bytes_of_characters();
    let byte = |character: char| known.get(character as usize).copied().flatten();
    let mut words = HashMap::new();
    let mut count = |word: Box<[u8]>| *words.entry(word).or_default() += 1;
    let mut divided = PreTokenizedString::from(text);
    match ByteLevel::new(false, false, true).pre_tokenize(&mut divided) {
        Ok(()) => {
            for (word, ..) in divided.get_splits(OffsetReferential::Normalized, OffsetType::None) {
                count(word.chars().filter_map(byte).collect());
            }
        }
        // Dividing has no reason to fail; the text as one word is still its bytes.
        Err(_) => count(text.as_bytes().into()),
    }
    words
}

type Pair = (u32, u32);

/// A word of the text, in the tokens so far.
struct Word {
    tokens: Vec<u32>,
    count: u64,
}

/// The state of learning.
struct Merges {
    words: Vec<Word>,
    /// The bytes of each token.
    tokens: Vec<Vec<u8>>,
    indices: HashMap<Vec<u8>, u32>,
    /// The joined pairs, in order, and the token of each.
    pairs: Vec<Pair>,
    joined: HashMap<Pair, u32>,
    counts: HashMap<Pair, u64>,
    /// The words that have had a pair.
    places: HashMap<Pair, BTreeSet<usize>>,
    /// Pairs by frequency. An entry whose frequency changed since is passed over.
    queue: BinaryHeap<(u64, Reverse<Pair>)>,
}

impl Merges {
    fn new(counted: HashMap<Box<[u8]>, u64>) -> Self {
        let tokens: Vec<Vec<u8>> = bytes().map(|byte| vec![byte]).collect();
        let indices: HashMap<_, _> = tokens.iter().cloned().zip(0..).collect();
        let mut counted: Vec<_> = counted.into_iter().collect();
        // Hash tables have another order in each process.
        counted.sort_unstable();
        let words = counted.into_iter().map(|(bytes, count)| Word {
            tokens: bytes.iter().map(|byte| indices[&vec![*byte]]).collect(),
            count,
        });
        let mut merges = Self {
            words: words.collect(),
            tokens,
            indices,
            pairs: Vec::new(),
            joined: HashMap::new(),
            counts: HashMap::new(),
            places: HashMap::new(),
            queue: BinaryHeap::new(),
        };
        for place in 0..merges.words.len() {
            merges.count(place, true);
        }
        merges.queue = merges.counts.iter().map(|(pair, count)| (*count, Reverse(*pair))).collect();
        merges
    }

    /// Joins the most frequent pair; `false` if none occurs often enough.
    fn join_next(&mut self) -> bool {
        while let Some((count, Reverse(pair))) = self.queue.pop() {
            if self.counts.get(&pair) != Some(&count) {
                continue;
            }
            if count < FEWEST {
                return false;
            }
            let token = self.token_of(pair);
            let places = self.places.remove(&pair).unwrap_or_default();
            let mut changed = BTreeSet::new();
            for place in places {
                changed.extend(self.count(place, false));
                join(&mut self.words[place].tokens, pair, token);
                changed.extend(self.count(place, true));
            }
            let counted = changed.into_iter().filter_map(|pair| Some((*self.counts.get(&pair)?, pair)));
            self.queue.extend(counted.map(|(count, pair)| (count, Reverse(pair))));
            return true;
        }
        false
    }

    /// The token that a pair is joined to. Two pairs may make the same bytes.
    fn token_of(&mut self, pair: Pair) -> u32 {
        if let Some(token) = self.joined.get(&pair) {
            return *token;
        }
        let (left, right) = (&self.tokens[pair.0 as usize], &self.tokens[pair.1 as usize]);
        let bytes = [&left[..], right].concat();
        // At most 2²⁴ tokens.
        let next = self.tokens.len() as u32;
        let token = *self.indices.entry(bytes.clone()).or_insert(next);
        if token == next {
            self.tokens.push(bytes);
        }
        self.joined.insert(pair, token);
        self.pairs.push(pair);
        token
    }

    /// Adds the pairs of a word to the counts, or takes them away. Returns them.
    fn count(&mut self, place: usize, is_added: bool) -> Vec<Pair> {
        let Word { tokens, count } = &self.words[place];
        let pairs: Vec<Pair> = tokens.windows(2).map(|pair| (pair[0], pair[1])).collect();
        for pair in &pairs {
            let known = self.counts.entry(*pair).or_default();
            if is_added {
                *known += count;
                self.places.entry(*pair).or_default().insert(place);
            } else {
                // It was added before.
                *known = known.saturating_sub(*count);
            }
        }
        pairs
    }
}

/// Joins each occurrence of a pair, from the left.
fn join(tokens: &mut Vec<u32>, pair: Pair, token: u32) {
    let mut kept = 0;
    let mut at = 0;
    while at < tokens.len() {
        let is_pair = tokens[at] == pair.0 && tokens.get(at + 1) == Some(&pair.1);
        tokens[kept] = if is_pair { token } else { tokens[at] };
        at += if is_pair { 2 } else { 1 };
        kept += 1;
    }
    tokens.truncate(kept);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "the cat and the hat: the cat sat, the hat sat.\n";

    fn trained(text: &str, size: usize) -> Trained {
        let mut trainer = Trainer::new();
        trainer.add(text);
        trainer.train(size)
    }

    #[test]
    fn the_most_frequent_pairs_are_joined_first() {
        let text = TEXT.repeat(10);
        let Trained { tokenizer, tokens, bytes } = trained(&text, 262);
        let shown: Vec<_> = (256..262).filter_map(|index| tokenizer.shown(index)).collect();
        // "at" 60 times; "th" and "he" 40 times, and "t" has the lower index as the left one of "the".
        assert_eq!((shown[0], shown[5]), ("at", "<|endoftext|>"));
        assert_eq!(bytes, text.len() as u64);
        assert_eq!(tokens, tokenizer.encode(&text).len() as u64);
    }

    #[test]
    fn a_text_without_frequent_pairs_gives_a_small_vocabulary() {
        assert_eq!(trained("abcdef", 400).tokenizer.size(), 257);
        assert_eq!(trained("", 300).tokenizer.size(), 257);
    }

    #[test]
    fn documents_are_divided_before_words() {
        let text = "a<|endoftext|>b<|endoftext|>".repeat(20);
        let tokenizer = trained(&text, 300).tokenizer;
        assert_eq!(tokenizer.size(), 257);
        assert_eq!(tokenizer.encode("a<|endoftext|>")[1], 256);
    }

    proptest! {
        #[test]
        fn the_same_text_gives_the_same_tokenizer(words in prop::collection::vec("[abc ]{1,6}", 1..60)) {
            let text = words.concat();
            let json = || serde_json::to_string(&trained(&text, 290).tokenizer).expect("it is JSON");
            prop_assert_eq!(json(), json());
        }

        #[test]
        fn the_tokens_of_the_text_are_counted(words in prop::collection::vec("[ab한\n ]{1,6}", 1..60)) {
            let text = words.concat();
            let trained = trained(&text, 280);
            prop_assert_eq!(trained.tokens, trained.tokenizer.encode(&text).len() as u64);
        }
    }
}

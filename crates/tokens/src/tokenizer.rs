use std::{collections::HashMap, fmt, sync::Arc};

use oomph_core::threads;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use sha2::{Digest, Sha256};
use tokenizers::{
    AddedToken, NormalizerWrapper, TokenizerImpl,
    models::bpe::{BPE, Vocab},
    pre_tokenizers::byte_level::ByteLevel,
};

use crate::{
    Detokenizer, TokenizerProblem, Vocabulary,
    alphabet::{bytes_of_characters, characters},
    layout::{Added, Layout, Parts, shortened},
    pieces::pieces,
};

/// A text to tokens and back, by byte-pair encoding of its bytes. Copies share the vocabulary.
///
/// The tokens are those of Hugging Face's library for the same `tokenizer.json`; nothing is added at the beginning or end of
/// a text.
#[derive(Clone)]
pub struct Tokenizer(Arc<Inner>);

/// GPT-2's chain: no normalisation, its expression for words, and the merges.
type Encoder = TokenizerImpl<BPE, NormalizerWrapper, ByteLevel, ByteLevel, ByteLevel>;

struct Inner {
    encoder: Encoder,
    parts: Parts,
    /// The bytes of each token, by its index.
    bytes: Vec<Box<[u8]>>,
    /// The index of the token of each byte.
    of_bytes: [u32; 256],
    end_of_document: Option<u32>,
    digest: [u8; 32],
}

impl Tokenizer {
    /// The token between documents, in vocabularies that have one.
    pub const END_OF_DOCUMENT: &str = "<|endoftext|>";

    /// The tokenizer in the bytes of a `tokenizer.json`.
    ///
    /// # Errors
    /// Bytes that are no JSON, or JSON of another layout than GPT-2's.
    pub fn parse(json: &[u8]) -> Result<Self, TokenizerProblem> {
        Self::of_layout(serde_json::from_slice(json)?)
    }

    fn of_layout(layout: Layout) -> Result<Self, TokenizerProblem> {
        Self::of_parts(layout.parts()?)
    }

    /// Checks the parts against each other: the library panics on some that contradict.
    pub(crate) fn of_parts(parts: Parts) -> Result<Self, TokenizerProblem> {
        let count = parts.tokens.len();
        if !(256..=Vocabulary::MOST_TOKENS).contains(&count) {
            return Err(TokenizerProblem::Count(count));
        }
        let bytes = token_bytes(&parts)?;
        let mut of_bytes = [None; 256];
        for (index, bytes) in (0..).zip(&bytes) {
            if let [byte] = **bytes
                && !parts.added.iter().any(|added| added.id == index)
            {
                of_bytes[usize::from(byte)] = Some(index);
            }
        }
        let missing = (0..=u8::MAX).find(|byte| of_bytes[usize::from(*byte)].is_none());
        if let Some(byte) = missing {
            return Err(TokenizerProblem::NoByte(byte));
        }
        let end_of_document = parts.added.iter().find(|added| added.content == Self::END_OF_DOCUMENT);
        Ok(Self(Arc::new(Inner {
            encoder: encoder(&parts)?,
            bytes,
            of_bytes: of_bytes.map(Option::unwrap_or_default),
            end_of_document: end_of_document.map(|added| added.id),
            digest: digest(&parts),
            parts,
        })))
    }

    /// The number of tokens: every index is below it.
    pub fn size(&self) -> usize {
        self.0.bytes.len()
    }

    /// The index of [`END_OF_DOCUMENT`](Self::END_OF_DOCUMENT), if the vocabulary has it.
    pub fn end_of_document(&self) -> Option<u32> {
        self.0.end_of_document
    }

    /// The SHA-256 of tokens and merges. How the file is formatted does not matter.
    pub fn digest(&self) -> [u8; 32] {
        self.0.digest
    }

    /// [`digest`](Self::digest) in hexadecimal digits.
    pub fn hex_digest(&self) -> String {
        self.0.digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The bytes of a token; `None` for an index that there is none of. They may be a part of a character.
    pub fn bytes(&self, token: u32) -> Option<&[u8]> {
        self.0.bytes.get(token as usize).map(|bytes| &**bytes)
    }

    /// A token as `tokenizer.json` shows it: `Ġ` is a space.
    pub fn shown(&self, token: u32) -> Option<&str> {
        self.0.parts.tokens.get(token as usize).map(String::as_str)
    }

    /// The tokens of a text. A long one is encoded by all cores.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        /// Bytes of a piece: the library takes about 100 bytes a token meanwhile.
        const PIECE: usize = 1 << 16;
        match &*pieces(text, PIECE) {
            [] => Vec::new(),
            [piece] => self.encode_piece(piece),
            pieces => threads::map(pieces, |piece| self.encode_piece(piece)).concat(),
        }
    }

    fn encode_piece(&self, text: &str) -> Vec<u32> {
        let inner = &*self.0;
        match inner.encoder.encode_fast(text, false) {
            Ok(encoding) => encoding.get_ids().to_vec(),
            // Every byte is a token, so the library has no reason to refuse a text.
            Err(_) => text.bytes().map(|byte| inner.of_bytes[usize::from(byte)]).collect(),
        }
    }

    /// The text of tokens. Bytes that are no UTF-8 become `U+FFFD`.
    pub fn decode(&self, tokens: &[u32]) -> String {
        let mut detokenizer = Detokenizer::new(self);
        let mut text: String = tokens.iter().map(|token| detokenizer.push(*token)).collect();
        text.push_str(&detokenizer.finish());
        text
    }
}

/// The bytes of each token.
fn token_bytes(parts: &Parts) -> Result<Vec<Box<[u8]>>, TokenizerProblem> {
    let known = bytes_of_characters();
    let mut bytes = Vec::with_capacity(parts.tokens.len());
    let mut added: Vec<_> = parts.added.iter().map(|added| added.id).collect();
    added.sort_unstable();
    for (index, token) in (0..).zip(&parts.tokens) {
        if added.binary_search(&index).is_ok() {
            bytes.push(token.as_bytes().into());
            continue;
        }
        let byte = |character: char| known.get(character as usize).copied().flatten().ok_or(character);
        let of_token = token.chars().map(byte).collect::<Result<Box<[u8]>, char>>();
        bytes.push(
            of_token
                .map_err(|character| TokenizerProblem::NotBytes { token: shortened(token), character })?,
        );
    }
    Ok(bytes)
}

/// The library's encoder.
fn encoder(parts: &Parts) -> Result<Encoder, TokenizerProblem> {
    let vocabulary: HashMap<&str, u32> = parts.tokens.iter().map(String::as_str).zip(0..).collect();
    for (index, (left, right)) in parts.merges.iter().enumerate() {
        let whole = format!("{left}{right}");
        let missing = [left, right, &whole].into_iter().find(|part| !vocabulary.contains_key(part.as_str()));
        if let Some(missing) = missing {
            let [left, right, missing] = [left, right, missing].map(|part| shortened(part));
            return Err(TokenizerProblem::Merge { index, left, right, missing });
        }
    }
    let vocabulary: Vocab = parts.tokens.iter().cloned().zip(0..).collect();
    let model = BPE::builder()
        .vocab_and_merges(vocabulary, parts.merges.clone())
        .ignore_merges(parts.ignore_merges)
        .build()
        .map_err(TokenizerProblem::Refused)?;
    let mut encoder = Encoder::new(model);
    encoder.with_pre_tokenizer(Some(ByteLevel::new(false, false, true)));
    let added = parts
        .added
        .iter()
        .map(|Added { content, special, .. }| AddedToken::from(content.clone(), *special).normalized(false));
    encoder.add_tokens(added).map_err(TokenizerProblem::Refused)?;
    Ok(encoder)
}

fn digest(parts: &Parts) -> [u8; 32] {
    let mut digest = Sha256::new();
    let mut add = |text: &str| {
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text);
    };
    parts.tokens.iter().for_each(|token| add(token));
    add("");
    parts.merges.iter().for_each(|(left, right)| [left, right].into_iter().for_each(|part| add(part)));
    add("");
    parts.added.iter().for_each(|added| add(&added.content));
    digest.update([u8::from(parts.ignore_merges)]);
    digest.finalize().into()
}

/// As a `tokenizer.json`.
impl Serialize for Tokenizer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.parts.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Tokenizer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::of_layout(Layout::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl PartialEq for Tokenizer {
    fn eq(&self, other: &Self) -> bool {
        self.0.digest == other.0.digest
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer").field("size", &self.size()).field("sha256", &self.hex_digest()).finish()
    }
}

/// The characters of each byte, as the trainer joins them.
pub(crate) fn shown_bytes(bytes: &[u8]) -> String {
    let characters = characters();
    bytes.iter().map(|byte| characters[usize::from(*byte)]).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::Trainer;

    /// A paragraph of our own.
    const KOREAN: &str = "기억은 배움의 그릇이다. 그릇이 작으면 넘치고, 그릇이 크면 비어 있다.\n\
                          그래서 우리는 먼저 재고, 그 다음에 채운다. 채우기 전에 재는 사람은 쏟지 않는다.\n";

    fn trained(text: &str, size: usize) -> Tokenizer {
        let mut trainer = Trainer::new();
        trainer.add(text);
        trainer.train(size).tokenizer
    }

    #[test]
    fn korean_comes_back_whole_and_unseen_characters_are_bytes() {
        let tokenizer = trained(&KOREAN.repeat(3), 400);
        let tokens = tokenizer.encode(KOREAN);
        assert_eq!(tokenizer.decode(&tokens), KOREAN);
        assert!(tokens.len() * 2 < KOREAN.len(), "{} tokens for {} bytes", tokens.len(), KOREAN.len());
        // Never seen: each of its bytes is a token.
        assert_eq!(tokenizer.encode("猫").len(), 3);
        assert_eq!(tokenizer.decode(&tokenizer.encode("猫𝄞")), "猫𝄞");
    }

    #[test]
    fn syllables_are_never_broken_where_tokens_arrive_one_by_one() {
        let tokenizer = trained(&KOREAN.repeat(3), 280);
        let tokens = tokenizer.encode(KOREAN);
        let mut detokenizer = Detokenizer::new(&tokenizer);
        let shown: Vec<String> = tokens.iter().map(|token| detokenizer.push(*token)).collect();
        assert!(shown.iter().all(|piece| !piece.contains(char::REPLACEMENT_CHARACTER)), "{shown:?}");
        assert!(shown.iter().any(String::is_empty), "some syllables are of several tokens");
        assert_eq!(shown.concat(), KOREAN);
        // A text that ends within a syllable.
        let mut cut = Detokenizer::new(&tokenizer);
        assert_eq!(cut.push(tokenizer.encode("猫")[0]), "");
        assert_eq!(cut.finish(), "\u{fffd}");
    }

    proptest! {
        #[test]
        fn any_text_comes_back(text in "\\PC{0,40}|[ \n\t한a']{0,60}") {
            let tokenizer = trained("the cat sat on the mat, 한국어도 한다", 280);
            prop_assert_eq!(tokenizer.decode(&tokenizer.encode(&text)), text);
        }

        #[test]
        fn the_tokens_of_pieces_are_those_of_the_whole(text in "[ \n\t한a1,']{0,200}", most in 1usize..20) {
            let tokenizer = trained("a1 a1, 한 한 aaa  a\n\n a", 280);
            let pieces: Vec<u32> =
                pieces(&text, most).iter().flat_map(|piece| tokenizer.encode_piece(piece)).collect();
            prop_assert_eq!(pieces, tokenizer.encode_piece(&text));
        }
    }

    #[test]
    fn a_written_tokenizer_is_read_as_the_same() {
        let tokenizer = trained(&"to be, or not to be ".repeat(9), 270);
        let json = serde_json::to_vec(&tokenizer).expect("it is JSON");
        let again = Tokenizer::parse(&json).expect("of GPT-2's layout");
        assert_eq!(again, tokenizer);
        assert_eq!(again.encode("to be"), tokenizer.encode("to be"));
        assert_eq!(again.end_of_document(), Some(tokenizer.size() as u32 - 1));
        // The library itself reads it, with the same tokens.
        let theirs: tokenizers::Tokenizer = serde_json::from_slice(&json).expect("the library's layout");
        let text = "not to be<|endoftext|>  or 한";
        assert_eq!(theirs.encode(text, false).expect("a text").get_ids(), tokenizer.encode(text));
        assert_eq!(theirs.decode(&tokenizer.encode("to be, or"), false).expect("tokens"), "to be, or");
    }

    #[test]
    fn merges_are_pairs_or_texts() {
        let tokenizer = trained(&"to be, or not to be ".repeat(9), 260);
        let mut json: Value = serde_json::to_value(&tokenizer).expect("it is JSON");
        let merges = json["model"]["merges"].as_array_mut().expect("a list");
        for merge in merges {
            *merge = format!("{} {}", merge[0].as_str().unwrap(), merge[1].as_str().unwrap()).into();
        }
        assert_eq!(Tokenizer::parse(json.to_string().as_bytes()).expect("the older layout"), tokenizer);
    }

    #[test]
    fn other_layouts_are_refused_with_key_value_and_expectation() {
        let good = serde_json::to_value(trained(&"to be ".repeat(9), 260)).expect("it is JSON");
        let refused = |change: &dyn Fn(&mut Value), expected: &str| {
            let mut json = good.clone();
            change(&mut json);
            let found = Tokenizer::parse(json.to_string().as_bytes()).expect_err("refused").to_string();
            assert!(found.contains(expected), "{found:?} has no {expected:?}");
        };
        refused(
            &|json| json["normalizer"] = json!({"type": "NFC"}),
            "`normalizer` is NFC; expected `null`, as in GPT-2's layout",
        );
        refused(
            &|json| json["model"]["type"] = "WordPiece".into(),
            "`model.type` is WordPiece; expected `BPE`",
        );
        refused(&|json| json["pre_tokenizer"] = json!({"type": "Metaspace"}), "`pre_tokenizer` is Metaspace");
        refused(
            &|json| json["pre_tokenizer"]["add_prefix_space"] = true.into(),
            "add_prefix_space` is `true`",
        );
        refused(
            &|json| json["model"]["vocab"]["z"] = 7777.into(),
            "has the index 7777; expected the indices 0",
        );
        refused(&|json| json["model"]["vocab"]["z"] = 3.into(), "each once");
        refused(
            &|json| json["model"]["merges"][0] = json!(["t", "xyz"]),
            "but \"xyz\" is not in `model.vocab`",
        );
        refused(&|json| json["model"]["merges"][0] = "tx".into(), "two tokens with a space between");
        refused(&|json| json["added_tokens"][0]["lstrip"] = true.into(), "has `lstrip` or `rstrip`");
        refused(&|json| json["added_tokens"][0]["content"] = "a b".into(), "has white space");
        refused(
            &|json| drop(json["model"].as_object_mut().unwrap().remove("vocab")),
            "missing field `vocab`",
        );
        for bytes in
            [&b""[..], b"{", b"[]", b"not JSON", b"{\"model\":{\"vocab\":{},\"merges\":[],\"type\":\"BPE\"}}"]
        {
            assert!(Tokenizer::parse(bytes).is_err());
        }
    }
}

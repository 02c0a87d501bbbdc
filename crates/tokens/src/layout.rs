//! The layout of a `tokenizer.json`.

use std::{collections::BTreeMap, fmt::Display};

use serde::{
    Deserialize, Serialize, Serializer,
    ser::{SerializeMap, SerializeStruct},
};
use serde_json::Value;

use crate::{TokenizerProblem, Vocabulary};

/// What a file says, unchecked. What does not change tokens, such as padding, is left out.
#[derive(Deserialize)]
pub(crate) struct Layout {
    #[serde(default)]
    normalizer: Option<Value>,
    #[serde(default)]
    pre_tokenizer: Option<Value>,
    #[serde(default)]
    added_tokens: Vec<AddedLayout>,
    model: Model,
}

#[derive(Deserialize)]
struct AddedLayout {
    id: u32,
    content: String,
    #[serde(default)]
    special: bool,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
}

#[derive(Deserialize)]
struct Model {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    vocab: BTreeMap<String, u32>,
    merges: Vec<Merge>,
    #[serde(default)]
    dropout: Option<f32>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    ignore_merges: bool,
}

/// Files before version 0.20 of the library write a merge as one text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Pair(String, String),
    Text(String),
}

/// An added token.
#[derive(Clone)]
pub(crate) struct Added {
    pub(crate) id: u32,
    pub(crate) content: String,
    pub(crate) special: bool,
}

/// What a tokenizer is made of.
#[derive(Clone)]
pub(crate) struct Parts {
    /// The tokens by index, added ones too; bytes are shown as characters.
    pub(crate) tokens: Vec<String>,
    /// The pairs to join, the first ones first.
    pub(crate) merges: Vec<(String, String)>,
    /// By index.
    pub(crate) added: Vec<Added>,
    /// Whether a word that is a token is that token, whatever the merges say.
    pub(crate) ignore_merges: bool,
}

impl Layout {
    /// The parts, where the layout is GPT-2's.
    pub(crate) fn parts(self) -> Result<Parts, TokenizerProblem> {
        self.check()?;
        let Model { vocab, merges, ignore_merges, .. } = self.model;
        let added = self.added_tokens.into_iter().map(AddedLayout::checked);
        let mut added = added.collect::<Result<Vec<_>, _>>()?;
        added.sort_by_key(|added| added.id);
        let tokens = by_index(vocab, &added)?;
        let merges = merges.into_iter().enumerate().map(|(index, merge)| merge.parts(index));
        Ok(Parts { tokens, merges: merges.collect::<Result<_, _>>()?, added, ignore_merges })
    }

    fn check(&self) -> Result<(), TokenizerProblem> {
        let Self { normalizer, pre_tokenizer, model, .. } = self;
        if let Some(normalizer) = normalizer {
            return refused("normalizer", kind(normalizer), "`null`");
        }
        let model_kind = model.kind.as_deref().unwrap_or("missing");
        if model_kind != "BPE" {
            return refused("model.type", model_kind, "`BPE`");
        }
        const EXPECTED: &str = "`ByteLevel`";
        let Some(words) = pre_tokenizer else { return refused("pre_tokenizer", "`null`", EXPECTED) };
        let words_kind = kind(words);
        if words_kind != "ByteLevel" {
            return refused("pre_tokenizer", words_kind, EXPECTED);
        }
        if words.get("add_prefix_space").is_some_and(|value| *value != Value::Bool(false)) {
            return refused("pre_tokenizer.add_prefix_space", "`true`", "`false`");
        }
        if words.get("use_regex").is_some_and(|value| *value != Value::Bool(true)) {
            return refused("pre_tokenizer.use_regex", "`false`", "`true`");
        }
        if let Some(dropout) = model.dropout.filter(|dropout| *dropout != 0.0) {
            return refused("model.dropout", dropout, "`null`");
        }
        for (key, affix) in [
            ("model.continuing_subword_prefix", &model.continuing_subword_prefix),
            ("model.end_of_word_suffix", &model.end_of_word_suffix),
        ] {
            if let Some(affix) = affix.as_ref().filter(|affix| !affix.is_empty()) {
                return refused(key, format!("{:?}", shortened(affix)), "none");
            }
        }
        Ok(())
    }
}

fn refused<T>(key: &'static str, found: impl Display, expected: &'static str) -> Result<T, TokenizerProblem> {
    Err(TokenizerProblem::Layout { key, found: found.to_string(), expected })
}

/// The `type` of a part.
fn kind(part: &Value) -> String {
    part.get("type").and_then(Value::as_str).map_or_else(|| "without a `type`".to_owned(), shortened)
}

/// A text of the file, shortened for a message.
pub(crate) fn shortened(text: &str) -> String {
    const MOST: usize = 40;
    let mut characters = text.chars();
    let shown: String = characters.by_ref().take(MOST).collect();
    if characters.next().is_some() { format!("{shown}…") } else { shown }
}

/// The tokens in the order of their indices, which are 0 to their number.
fn by_index(vocab: BTreeMap<String, u32>, added: &[Added]) -> Result<Vec<String>, TokenizerProblem> {
    let mut all = vocab;
    for Added { id, content, .. } in added {
        let known = *all.entry(content.clone()).or_insert(*id);
        if known != *id {
            let problem = "has another index in `model.vocab`";
            return Err(TokenizerProblem::Added { token: shortened(content), problem });
        }
    }
    let count = all.len();
    if count > Vocabulary::MOST_TOKENS {
        return Err(TokenizerProblem::Count(count));
    }
    let mut tokens = vec![None; count];
    for (token, index) in all {
        match tokens.get_mut(index as usize) {
            Some(place @ None) => *place = Some(token),
            _ => return Err(TokenizerProblem::Index { token: shortened(&token), index, count }),
        }
    }
    // As many tokens as places, each in a place of its own.
    Ok(tokens.into_iter().flatten().collect())
}

impl AddedLayout {
    fn checked(self) -> Result<Added, TokenizerProblem> {
        let Self { id, content, special, single_word, lstrip, rstrip } = self;
        let problem = match () {
            () if content.is_empty() => "is empty; expected a text",
            () if content.contains(char::is_whitespace) => "has white space; expected none",
            () if single_word => "has `single_word`; expected `false`",
            () if lstrip || rstrip => "has `lstrip` or `rstrip`; expected `false`",
            () => return Ok(Added { id, content, special }),
        };
        Err(TokenizerProblem::Added { token: shortened(&content), problem })
    }
}

impl Merge {
    fn parts(self, index: usize) -> Result<(String, String), TokenizerProblem> {
        match self {
            Self::Pair(left, right) => Ok((left, right)),
            Self::Text(text) => match text.split_once(' ') {
                Some((left, right)) => Ok((left.to_owned(), right.to_owned())),
                None => Err(TokenizerProblem::Layout {
                    key: "model.merges",
                    found: format!("{:?} at {index}", shortened(&text)),
                    expected: "two tokens with a space between",
                }),
            },
        }
    }
}

/// As the library writes a byte-level tokenizer.
impl Serialize for Parts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let added: Vec<_> = self.added.iter().map(AddedShown).collect();
        let byte_level = ByteLevelShown;
        let mut file = serializer.serialize_struct("Tokenizer", 9)?;
        file.serialize_field("version", "1.0")?;
        file.serialize_field("truncation", &None::<()>)?;
        file.serialize_field("padding", &None::<()>)?;
        file.serialize_field("added_tokens", &added)?;
        file.serialize_field("normalizer", &None::<()>)?;
        for part in ["pre_tokenizer", "post_processor", "decoder"] {
            file.serialize_field(part, &byte_level)?;
        }
        file.serialize_field("model", &ModelShown(self))?;
        file.end()
    }
}

struct AddedShown<'a>(&'a Added);

impl Serialize for AddedShown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Added { id, content, special } = self.0;
        let mut token = serializer.serialize_struct("AddedToken", 7)?;
        token.serialize_field("id", id)?;
        token.serialize_field("content", content)?;
        for option in ["single_word", "lstrip", "rstrip", "normalized"] {
            token.serialize_field(option, &false)?;
        }
        token.serialize_field("special", special)?;
        token.end()
    }
}

struct ByteLevelShown;

impl Serialize for ByteLevelShown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut part = serializer.serialize_struct("ByteLevel", 4)?;
        part.serialize_field("type", "ByteLevel")?;
        part.serialize_field("add_prefix_space", &false)?;
        part.serialize_field("trim_offsets", &false)?;
        part.serialize_field("use_regex", &true)?;
        part.end()
    }
}

struct ModelShown<'a>(&'a Parts);

impl Serialize for ModelShown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Parts { tokens, merges, ignore_merges, .. } = self.0;
        let mut model = serializer.serialize_struct("BPE", 10)?;
        model.serialize_field("type", "BPE")?;
        for option in ["dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"] {
            model.serialize_field(option, &None::<()>)?;
        }
        model.serialize_field("fuse_unk", &false)?;
        model.serialize_field("byte_fallback", &false)?;
        model.serialize_field("ignore_merges", ignore_merges)?;
        model.serialize_field("vocab", &VocabularyShown(tokens))?;
        model.serialize_field("merges", merges)?;
        model.end()
    }
}

/// In the order of the indices.
struct VocabularyShown<'a>(&'a [String]);

impl Serialize for VocabularyShown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (index, token) in self.0.iter().enumerate() {
            map.serialize_entry(token, &index)?;
        }
        map.end()
    }
}

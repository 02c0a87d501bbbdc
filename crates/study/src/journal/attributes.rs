//! Attributes, which any program may write, in bounded memory.

use std::{collections::BTreeMap, fmt};

use serde::{Deserializer, de};
use serde_json::{Value, value::RawValue};

/// Attributes by name. A value that would take over 48 times the memory of its text is kept as that text, in a string: a list of
/// tiny objects, for example.
pub type Attributes = BTreeMap<String, Value>;

/// How many bytes of memory a byte of an attribute's text may take.
const MOST_BYTES_A_BYTE: usize = 48;
/// What any attribute may take beyond.
const SPARE_BYTES: usize = 384;
/// A node of a `BTreeMap` has space for eleven entries, which is more than the entries of a small object need.
const OBJECT_BYTES: usize = 640;
/// The first allocation of a `Vec` has space for four values.
const LIST_BYTES: usize = 128;
/// A value, where the list or map around it has as much space again.
const ITEM_BYTES: usize = 56;

/// Reads attributes.
pub(super) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Attributes, D::Error> {
    struct Visitor;
    impl<'de> de::Visitor<'de> for Visitor {
        type Value = Attributes;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Attributes, A::Error> {
            let mut attributes = Attributes::new();
            while let Some(name) = map.next_key::<String>()? {
                let text: &RawValue = map.next_value()?;
                attributes.insert(name, bounded(text.get()).map_err(de::Error::custom)?);
            }
            Ok(attributes)
        }
    }
    from.deserialize_map(Visitor)
}

/// [`read`] for a field that may be absent.
pub(super) fn read_some<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Attributes>, D::Error> {
    read(from).map(Some)
}

fn bounded(text: &str) -> Result<Value, serde_json::Error> {
    let is_string = text.starts_with('"');
    if !is_string && bytes(text) > text.len() * MOST_BYTES_A_BYTE + SPARE_BYTES {
        return Ok(Value::String(text.to_owned()));
    }
    serde_json::from_str(text)
}

/// About how many bytes a text takes once it is a [`Value`]. Signs within strings of a list or an object count as well.
fn bytes(text: &str) -> usize {
    let of = |byte| match byte {
        b'{' => OBJECT_BYTES,
        b'[' => LIST_BYTES,
        b',' => ITEM_BYTES,
        _ => 0,
    };
    text.bytes().map(of).sum()
}

/// What an attribute says, also where it is kept as a text.
pub(crate) fn typed<T: de::DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value).ok().or_else(|| serde_json::from_str(value.as_str()?).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(text: &str) -> Attributes {
        read(&mut serde_json::Deserializer::from_str(text)).expect("attributes")
    }

    #[test]
    fn attributes_are_values_unless_they_would_take_much_memory() {
        let lease = r#"{"worker":"a","attempt":1,"beat":0,"lost":0,"seconds":120.0}"#;
        let long = format!("[{}0]", "0,".repeat(10_000));
        let dense = format!("[{}{{}}]", "{\"\":0},".repeat(100));
        let all = attributes(&format!(
            r#"{{"lease":{lease},"eta":{{"eta":3}},"long":{long},"dense":{dense},"text":"{{{{{{"}}"#
        ));
        assert_eq!(all["lease"], serde_json::from_str::<Value>(lease).expect("JSON"));
        assert_eq!(all["eta"], serde_json::json!({"eta": 3}));
        assert_eq!(all["long"].as_array().map(Vec::len), Some(10_001));
        assert_eq!(all["dense"], Value::String(dense));
        assert_eq!(all["text"], "{{{");
        assert_eq!(typed::<Vec<BTreeMap<String, u64>>>(&all["dense"]).map(|list| list.len()), Some(101));
    }
}

//! The fields of a `config.json`: those that a family knows, and nothing of the others.

use std::{collections::BTreeMap, fmt};

use oomph_config::Value;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::shown::shortened;

/// A value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Field {
    Null,
    Scalar(Value),
    /// A list of two integers, such as the sides of an image.
    Pair([usize; 2]),
    /// Another list, or an object where none belongs.
    Other,
}

impl Field {
    /// The value, unless it is null, a list or an object.
    pub(crate) fn scalar(&self) -> Option<&Value> {
        match self {
            Self::Scalar(value) => Some(value),
            Self::Null | Self::Pair(_) | Self::Other => None,
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Scalar(Value::String(text)) => write!(f, "\"{}\"", shortened(text)),
            Self::Scalar(value) => f.write_str(&value.shown()),
            Self::Pair([first, second]) => write!(f, "[{first}, {second}]"),
            Self::Other => f.write_str("a list or an object"),
        }
    }
}

/// The fields by name. Those of the object `rope_parameters` are named `rope_parameters.rope_theta` and so on.
pub(crate) type Fields = BTreeMap<String, Field>;

/// The longest text that is kept. No name of a model, an activation or a kind of positions is longer.
const LONGEST_TEXT: usize = 256;

/// Whether a field is kept.
type IsKnown = dyn Fn(&str) -> bool;

/// Reads the fields for which `is_known` holds. All others take no memory.
pub(crate) fn read(bytes: &[u8], is_known: &IsKnown) -> serde_json::Result<Fields> {
    let mut fields = Fields::new();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    Object { prefix: "", is_known, fields: &mut fields }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(fields)
}

/// Reads an object whose fields have names that begin with `prefix`.
struct Object<'a> {
    prefix: &'a str,
    is_known: &'a IsKnown,
    fields: &'a mut Fields,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Key(key)) = map.next_key_seed(KeySeed)? {
            let name = format!("{}{key}", self.prefix);
            let below = format!("{name}.");
            let holds_known = self.prefix.is_empty() && (self.is_known)(&below);
            if holds_known || (self.is_known)(&name) {
                let inner = holds_known.then_some((self.is_known, below.as_str()));
                if let Some(field) = map.next_value_seed(FieldSeed { inner, fields: self.fields })? {
                    self.fields.insert(name, field);
                }
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// The beginning of a key: no known one is longer.
struct Key(String);

struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Key, E> {
        Ok(Key(key.chars().take(LONGEST_TEXT).collect()))
    }
}

/// Reads a value; `None` for an object whose fields are read on their own.
struct FieldSeed<'a> {
    /// What is known of the fields of an object, and how their names begin.
    inner: Option<(&'a IsKnown, &'a str)>,
    fields: &'a mut Fields,
}

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = Option<Field>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Field>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FieldSeed<'_> {
    type Value = Option<Field>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Option<Field>, E> {
        Ok(Some(Field::Scalar(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Option<Field>, E> {
        Ok(Some(Field::Scalar(value.into())))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Option<Field>, E> {
        Ok(Some(Field::Scalar(Value::Integer(value.into()))))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Option<Field>, E> {
        match value.is_finite() {
            true => Ok(Some(Field::Scalar(value.into()))),
            false => Err(E::custom("a number is infinite")),
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Option<Field>, E> {
        Ok(Some(Field::Scalar(value.chars().take(LONGEST_TEXT).collect::<String>().into())))
    }

    fn visit_unit<E>(self) -> Result<Option<Field>, E> {
        Ok(Some(Field::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Option<Field>, A::Error> {
        let (mut pair, mut count, mut is_pair) = ([0; 2], 0, true);
        while let Some(item) =
            list.next_element_seed(FieldSeed { inner: None, fields: &mut Fields::new() })?
        {
            let size = item.and_then(|item| match item.scalar() {
                Some(Value::Integer(size)) => usize::try_from(*size).ok(),
                _ => None,
            });
            match (pair.get_mut(count), size) {
                (Some(side), Some(size)) => *side = size,
                _ => is_pair = false,
            }
            count += 1;
        }
        Ok(Some(if is_pair && count == 2 { Field::Pair(pair) } else { Field::Other }))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<Field>, A::Error> {
        if let Some((is_known, prefix)) = self.inner {
            Object { prefix, is_known, fields: self.fields }.visit_map(map)?;
            return Ok(None);
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Some(Field::Other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> serde_json::Result<Fields> {
        read(text.as_bytes(), &|name| ["a", "b", "o.", "o.x"].contains(&name))
    }

    #[test]
    fn known_fields_are_kept_and_others_are_not() {
        let read =
            fields(r#"{"a": 3, "z": [[{"a": 1}]], "o": {"x": 1e-5, "y": 2, "o": {"x": 3}}, "b": [2, 4]}"#);
        let expected = [
            ("a", Field::Scalar(3usize.into())),
            ("b", Field::Pair([2, 4])),
            ("o.x", Field::Scalar(1e-5.into())),
        ];
        assert_eq!(read.unwrap(), expected.map(|(name, field)| (name.to_owned(), field)).into());
        let read = fields(r#"{"a": [1, 2, 3], "b": {"c": 1}, "o": null}"#).unwrap();
        assert_eq!([&read["a"], &read["b"], &read["o"]], [&Field::Other, &Field::Other, &Field::Null]);
    }

    #[test]
    fn what_is_no_object_is_an_error() {
        for text in ["", "[]", "3", "{", r#"{"a": 1} x"#, r#"{"a": 1e999}"#, "{\"a\": \"\\ud800\"}"] {
            assert!(fields(text).is_err(), "{text}");
        }
        let deep = format!("{{\"a\": {}", "[".repeat(100_000));
        assert!(fields(&deep).is_err());
    }
}

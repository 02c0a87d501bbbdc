//! Bounds of a safetensors header, checked before its tensors take memory.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::error::FormatError;

/// The most tensors of a file. The largest language models have some ten thousand.
pub(super) const MOST_TENSORS: usize = 1 << 17;
/// The longest name of a tensor, in bytes. A name has a part for each module around the tensor.
pub(super) const LONGEST_NAME: usize = 1024;

/// Checks the number of entries of a header in JSON, and the length of their names, without keeping any.
pub(super) fn check_entries(header: &[u8]) -> Result<(), FormatError> {
    let mut refused = None;
    let entries = Entries { refused: &mut refused };
    let read = serde_json::Deserializer::from_slice(header).deserialize_map(entries);
    match (refused, read) {
        (Some(refused), _) => Err(refused),
        (None, Err(source)) => Err(FormatError::Header { source }),
        (None, Ok(())) => Ok(()),
    }
}

/// Checks the length of a name.
pub(super) fn check_name(name: &str) -> Result<(), FormatError> {
    match name.len() {
        length if length > LONGEST_NAME => {
            Err(FormatError::TooMany { at: 0, most: LONGEST_NAME, what: "bytes in the name of a tensor" })
        }
        _ => Ok(()),
    }
}

/// Counts the entries of a map. The reason to stop is kept apart, since the reader's errors are texts.
struct Entries<'a> {
    refused: &'a mut Option<FormatError>,
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut count = 0;
        while let Some(name) = map.next_key_seed(Name)? {
            count += 1;
            let too_many = || FormatError::TooMany { at: 0, most: MOST_TENSORS, what: "tensors" };
            let checked = name.and(if count > MOST_TENSORS { Err(too_many()) } else { Ok(()) });
            if let Err(refused) = checked {
                *self.refused = Some(refused);
                return Err(A::Error::custom("refused"));
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// Checks a name in place.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Result<(), FormatError>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Result<(), FormatError>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a tensor")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(check_name(name))
    }
}

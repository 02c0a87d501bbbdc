//! JSON as Python writes it: with bare `NaN` and `Infinity`, and with halves of surrogate pairs.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A line as strict JSON. Bare `NaN`, `Infinity` and `-Infinity` become strings, which [`Number`] reads.
/// An escaped surrogate without its other half becomes U+FFFD.
///
/// The result is at most five thirds as long.
pub(crate) fn strict(line: &str) -> Cow<'_, str> {
    let bytes = line.as_bytes();
    let mut out = String::new();
    let mut kept = 0;
    let mut at = 0;
    let mut in_string = false;
    // All places where the text is split hold ASCII, so they are character boundaries.
    let mut replace = |from: usize, to: usize, with: &str| {
        out.push_str(line.get(kept..from).unwrap_or_default());
        out.push_str(with);
        kept = to;
    };
    while let Some(byte) = bytes.get(at) {
        let rest = bytes.get(at..).unwrap_or_default();
        at += match (byte, in_string) {
            (b'"', _) => {
                in_string = !in_string;
                1
            }
            (b'\\', true) => match lone_surrogate(rest) {
                Escape::Lone => {
                    replace(at, at + 6, "\\ufffd");
                    6
                }
                Escape::Pair => 12,
                Escape::Other => 2,
            },
            (b'N' | b'I' | b'-', false) => {
                let token = ["NaN", "Infinity", "-Infinity"]
                    .into_iter()
                    .find(|token| rest.starts_with(token.as_bytes()));
                if let Some(token) = token {
                    replace(at, at + token.len(), &format!("\"{token}\""));
                }
                token.map_or(1, str::len)
            }
            _ => 1,
        };
    }
    if kept == 0 {
        return Cow::Borrowed(line);
    }
    out.push_str(line.get(kept..).unwrap_or_default());
    Cow::Owned(out)
}

enum Escape {
    /// A surrogate without its other half.
    Lone,
    /// Both halves.
    Pair,
    /// Anything else.
    Other,
}

fn lone_surrogate(text: &[u8]) -> Escape {
    let unit = |from: usize| {
        let escape = text.get(from..from + 6)?;
        let digits = escape.strip_prefix(b"\\u")?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    match unit(0) {
        Some(0xd800..=0xdbff) if matches!(unit(6), Some(0xdc00..=0xdfff)) => Escape::Pair,
        Some(0xd800..=0xdfff) => Escape::Lone,
        _ => Escape::Other,
    }
}

/// Reads JSON as Python writes it.
///
/// # Errors
/// It is no JSON, or not the JSON of a `T`.
pub(crate) fn parse<T: de::DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| match strict(text) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(strict) => serde_json::from_str(&strict),
    })
}

/// A number that may be read as NaN or infinite, but is written only if it is finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number(pub f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !self.0.is_finite() {
            return Err(serde::ser::Error::custom(format_args!("the number {} is not finite", self.0)));
        }
        serializer.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Number;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number")
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Number, E> {
                Ok(Number(value))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Number, E> {
                Ok(Number(value as f64))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Number, E> {
                Ok(Number(value as f64))
            }
            // A Python bool is a number.
            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Number, E> {
                Ok(Number(f64::from(u8::from(value))))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Number, E> {
                match value {
                    "NaN" => Ok(Number(f64::NAN)),
                    "Infinity" => Ok(Number(f64::INFINITY)),
                    "-Infinity" => Ok(Number(f64::NEG_INFINITY)),
                    _ => Err(E::invalid_type(de::Unexpected::Str(value), &self)),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Vec<f64> {
        parse::<Vec<Number>>(text).expect("numbers").into_iter().map(|number| number.0).collect()
    }

    #[test]
    fn what_python_writes_is_read() {
        let read = numbers("[NaN, Infinity,-Infinity,-1,2.5,1e3,18446744073709551616]");
        assert!(read[0].is_nan());
        assert_eq!(
            read[1..],
            [f64::INFINITY, f64::NEG_INFINITY, -1.0, 2.5, 1000.0, 18_446_744_073_709_551_616.0]
        );
        let text = r#"["NaN \" NaN","\ud83d\ude00","a\ud800b","\\ud800",NaN]"#;
        let read: Vec<String> = parse(text).expect("strings");
        assert_eq!(read, ["NaN \" NaN", "😀", "a\u{fffd}b", "\\ud800", "NaN"]);
    }

    #[test]
    fn what_no_program_writes_is_refused() {
        for text in ["[nan]", "[NaNx]", "[Inf]", "[\"1\"]", "[null]", "[NaN", "NaN NaN"] {
            assert!(parse::<Vec<Number>>(text).is_err(), "{text}");
        }
        assert!(serde_json::to_string(&Number(f64::NAN)).is_err());
        assert!(serde_json::to_string(&Number(f64::INFINITY)).is_err());
    }
}

//! Changes of one value in a JSON document.

use oomph_core::Generator;
use serde_json::{Value, json};

/// What replaces a value: numbers at limits, other types, and what is no JSON number at all.
const TEXTS: &[&str] = &[
    "0",
    "-1",
    "1",
    "2",
    "0.0",
    "-0.0",
    "1e-308",
    "1e308",
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    "\"NaN\"",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1099511627776",
    "1000000",
    "0.5",
    "-0.5",
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "\"x\"",
    "[0]",
    "{\"x\":1}",
    "[[[[[[[[]]]]]]]]",
    "3e38",
    "-3e38",
];

/// A document with one change, and the change in words.
pub(crate) struct Changed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) about: String,
    /// The key of the value that was changed.
    pub(crate) key: String,
}

/// Marks the place of a text that is no JSON.
const MARK: &str = "@here@";

/// Changes a value below `top`, or the document's structure there.
pub(crate) fn change(random: &mut Generator, document: &Value, top: &str) -> Changed {
    let mut places = Vec::new();
    collect(document.pointer(top).unwrap_or(document), top.to_owned(), &mut places);
    let place = places[random.below(places.len())].clone();
    let key = place.rsplit('/').find(|part| part.parse::<usize>().is_err()).unwrap_or_default().to_owned();
    let mut document = document.clone();
    let (parent, last) = place.rsplit_once('/').unwrap_or(("", ""));
    match random.below(10) {
        0 => {
            remove(&mut document, parent, last);
            Changed { bytes: text(&document), about: format!("{place} is missing"), key }
        }
        1 => {
            add(&mut document, parent, last);
            Changed { bytes: text(&document), about: format!("more beside {place}"), key }
        }
        _ => {
            let new = TEXTS[random.below(TEXTS.len())];
            if let Some(value) = document.pointer_mut(&place) {
                *value = json!(MARK);
            }
            let bytes = String::from_utf8_lossy(&text(&document)).replace(&format!("\"{MARK}\""), new);
            Changed { bytes: bytes.into_bytes(), about: format!("{place} = {new}"), key }
        }
    }
}

fn text(document: &Value) -> Vec<u8> {
    // Values of JSON always serialize.
    serde_json::to_vec(document).unwrap_or_default()
}

/// The places of all values below one.
fn collect(value: &Value, place: String, places: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                collect(value, format!("{place}/{key}"), places);
            }
        }
        Value::Array(values) => {
            // The first items stand for all.
            for (number, value) in values.iter().enumerate().take(3) {
                collect(value, format!("{place}/{number}"), places);
            }
        }
        _ => {}
    }
    places.push(place);
}

fn remove(document: &mut Value, parent: &str, last: &str) {
    match document.pointer_mut(parent) {
        Some(Value::Object(map)) => drop(map.remove(last)),
        Some(Value::Array(values)) if !values.is_empty() => drop(values.remove(0)),
        _ => {}
    }
}

/// Adds a copy of a value under another key, or as another item.
fn add(document: &mut Value, parent: &str, last: &str) {
    match document.pointer_mut(parent) {
        Some(Value::Object(map)) => {
            let value = map.get(last).cloned().unwrap_or_default();
            map.insert(format!("{last}.tail"), value);
        }
        Some(Value::Array(values)) => values.push(values.first().cloned().unwrap_or_default()),
        _ => {}
    }
}

//! Texts of the store: scalars of YAML, URIs, names that MLflow accepts.

use std::{fmt::Write as _, path::Path};

use oomph_core::is_unprintable;

/// A string as a quoted scalar of YAML, whose escapes are those of JSON.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            // All of them have four digits. Writing to a string cannot fail.
            _ if is_unprintable(character) => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(character));
            }
            _ => quoted.push(character),
        }
    }
    quoted + "\""
}

/// The value of a key in the first lines of a YAML file without nested blocks, as PyYAML and [`quoted`] write it.
pub(super) fn value_of(yaml: &str, key: &str) -> Option<String> {
    let line = yaml.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?.trim();
    let within = |quote| line.strip_prefix(quote)?.strip_suffix(quote);
    if let Some(single) = within('\'') {
        return Some(single.replace("''", "'"));
    }
    if within('"').is_some() {
        return serde_json::from_str(line).ok();
    }
    Some(line.to_owned())
}

/// The `file` URI of an absolute path.
pub(super) fn file_uri(path: &Path) -> String {
    // Windows: `C:\runs` is `file:///C:/runs`.
    let mut uri = String::from(if cfg!(windows) { "file:///" } else { "file://" });
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'\\' if cfg!(windows) => uri.push('/'),
            b':' if cfg!(windows) => uri.push(':'),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(*byte));
            }
            // Writing to a string cannot fail.
            _ => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

/// A configuration key as MLflow accepts it: letters, digits, `_`, `-`, `.`, space and `:`. Others become `_`.
pub(super) fn accepted_name(key: &str) -> String {
    let accepted = |letter: char| letter.is_ascii_alphanumeric() || "_-. :".contains(letter);
    let name: String = key.chars().map(|letter| if accepted(letter) { letter } else { '_' }).collect();
    // `.` and `..` are folders, and MLflow refuses names longer than this.
    let name = if name.chars().all(|letter| letter == '.') { "_".to_owned() } else { name };
    name.chars().take(250).collect()
}

/// The tag of a metric as MLflow accepts it, which stays below its folder. A program names measures of its own.
pub(super) fn accepted_path(tag: &str) -> String {
    tag.split('/').map(accepted_name).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_texts_are_read_back() {
        for text in ["runs/digits", "a: b # c", "\"\\", "line\nend\u{7f}\u{85}", "é ✓ 😀", "", "'", "no"]
        {
            let yaml = format!("lifecycle_stage: active\nname: {}\nx: 1\n", quoted(text));
            assert_eq!(value_of(&yaml, "name").as_deref(), Some(text), "{yaml}");
        }
    }

    #[test]
    fn what_pyyaml_writes_is_read() {
        assert_eq!(value_of("name: resnet\n", "name").as_deref(), Some("resnet"));
        assert_eq!(value_of("name: 'it''s: one'\n", "name").as_deref(), Some("it's: one"));
        assert_eq!(value_of("names: x\n", "name"), None);
    }

    #[test]
    fn uris_and_names_have_no_characters_with_a_meaning() {
        assert_eq!(file_uri(Path::new("/a b/ü#")), "file:///a%20b/%C3%BC%23");
        assert_eq!(accepted_name("tune.space.\"a/b\""), "tune.space._a_b_");
        assert_eq!(accepted_name(".."), "_");
        assert_eq!(accepted_path("memory/in_use"), "memory/in_use");
        assert_eq!(accepted_path("/../f²/eval"), "_/_/f_/eval");
    }
}

//! Texts from outside, such as file names, as a terminal may show them.

use std::fmt::{self, Write};

/// A text on one line. Control characters and those that reorder the text around them are escaped.
///
/// ```
/// assert_eq!(oomph_core::printable("a\u{1b}[31m\n\u{202e}b"), "a\\u{1b}[31m\\n\\u{202e}b");
/// ```
pub fn printable(text: impl fmt::Display) -> String {
    escaped(text, |_| false)
}

/// The same with line ends and tabs, for texts of several lines.
pub fn printable_lines(text: impl fmt::Display) -> String {
    escaped(text, |character| matches!(character, '\n' | '\t'))
}

/// `--set key=value` as a shell reads it: quoted, where the value has characters that mean something to it.
///
/// ```
/// use oomph_core::printable::typed_setting;
///
/// assert_eq!(typed_setting("train.batch", "8"), "--set train.batch=8");
/// assert_eq!(typed_setting("model.freeze", r#"["a", "b"]"#), r#"--set 'model.freeze=["a", "b"]'"#);
/// ```
pub fn typed_setting(key: &str, value: &str) -> String {
    let is_plain = |character: char| character.is_alphanumeric() || "._-+/:,=%@".contains(character);
    match value.chars().all(is_plain) {
        true => format!("--set {key}={value}"),
        false => format!("--set '{key}={}'", value.replace('\'', r"'\''")),
    }
}

/// Whether a character moves the cursor, starts a terminal's command, or changes the order in which text is shown.
pub fn is_unprintable(character: char) -> bool {
    // The last ones are Unicode's controls of bidirectional text, and its line and paragraph separators.
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}'
        )
}

fn escaped(text: impl fmt::Display, keeps: impl Fn(char) -> bool) -> String {
    let mut escaped = Escaped { text: String::new(), keeps };
    // Writing to a string cannot fail.
    let _ = write!(escaped, "{text}");
    escaped.text
}

struct Escaped<F> {
    text: String,
    keeps: F,
}

impl<F: Fn(char) -> bool> Write for Escaped<F> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            if is_unprintable(character) && !(self.keeps)(character) {
                self.text.extend(character.escape_default());
            } else {
                self.text.push(character);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_overrides_of_direction_are_escaped() {
        for (text, shown) in [
            ("é 漢 👍 a\\b", "é 漢 👍 a\\b"),
            ("\u{1b}]0;x\u{7}", "\\u{1b}]0;x\\u{7}"),
            ("\u{9b}31m\u{7f}", "\\u{9b}31m\\u{7f}"),
            ("gnp.\u{202e}exe\u{2066}", "gnp.\\u{202e}exe\\u{2066}"),
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ] {
            assert_eq!(printable(text), shown);
        }
        assert_eq!(printable_lines("a\nb\tc\r\u{1b}"), "a\nb\tc\\r\\u{1b}");
    }
}

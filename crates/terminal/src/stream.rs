//! stdout and stderr. Everything that oomph writes to them goes through this file, which the tidy test checks.

use std::{
    borrow::Cow,
    fmt::Write as _,
    io::{self, IsTerminal, Write},
};

use oomph_core::is_unprintable;
use serde::Serialize;

/// Writes a text to stdout and flushes it.
///
/// # Errors
/// Stdout is closed, or the system refuses.
pub fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(shown(text).as_bytes())?;
    stdout.flush()
}

/// Writes a value to stdout as one line of JSON.
///
/// # Errors
/// As [`print()`]; also where the value is not JSON.
pub fn print_json(value: &impl Serialize) -> io::Result<()> {
    print(&(json(value)? + "\n"))
}

/// A value as JSON. The characters that a terminal must not get are in its strings alone, and JSON can escape them there.
fn json(value: &impl Serialize) -> serde_json::Result<String> {
    let plain = serde_json::to_string(value)?;
    if !plain.contains(is_unprintable) {
        return Ok(plain);
    }
    let mut json = String::with_capacity(plain.len());
    for character in plain.chars() {
        if is_unprintable(character) {
            // All of them have four digits. Writing to a string cannot fail.
            let _ = write!(json, "\\u{:04x}", u32::from(character));
        } else {
            json.push(character);
        }
    }
    Ok(json)
}

/// Writes a line to stderr. Unlike `eprintln!` it does not panic if stderr is closed.
pub fn write_line(text: &str) {
    let _ = writeln!(io::stderr(), "{}", shown(text));
}

/// Writes a question to stderr, without an end of line. A closed stderr is no error here.
pub fn ask(question: &str) {
    let mut stderr = io::stderr();
    let _ = write!(stderr, "{}", shown(question));
    let _ = stderr.flush();
}

/// Flushes stdout. A closed stream is no error here.
pub fn flush() {
    let _ = io::stdout().flush();
}

/// How many columns a line of stdout has: what the variable `COLUMNS` says, or the terminal. `None` for a file or a pipe.
pub fn columns() -> Option<usize> {
    let said = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse::<usize>().ok())
        .filter(|columns| *columns > 0);
    said.or_else(|| console::Term::stdout().size_checked().map(|(_, columns)| columns.into()))
}

/// Whether stderr is a terminal.
pub fn is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// The text as a terminal may get it: what a name from outside brought is escaped, the styles of our own texts stay.
///
/// Names are escaped where they enter a text, by [`oomph_core::printable()`]. A name that was forgotten there can change
/// colours here, and nothing else.
pub fn shown(text: &str) -> Cow<'_, str> {
    let is_plain = |character| matches!(character, '\n' | '\t') || !is_unprintable(character);
    if text.chars().all(is_plain) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let length = style_length(rest).unwrap_or(character.len_utf8());
        if length > character.len_utf8() || is_plain(character) {
            shown.push_str(&rest[..length]);
        } else {
            shown.extend(character.escape_default());
        }
        rest = &rest[length..];
    }
    shown.into()
}

/// The length of the style at the start of a text, as `console` and `clap` write them: `ESC [ 31 m`.
fn style_length(text: &str) -> Option<usize> {
    const BEGIN: &str = "\u{1b}[";
    let rest = text.strip_prefix(BEGIN)?;
    // The number has two digits at most, so that a text of many beginnings is not searched to its end for each.
    let end = rest.bytes().take(3).position(|byte| byte == b'm')?;
    let number = &rest[..end];
    // Normal, bold, dim, italic, underlined, and the colours of letters: none of them hides a text.
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let is_harmless = matches!(number.parse::<u8>(), Ok(0..=4 | 30..=37 | 39 | 90..=97));
    (is_number && is_harmless).then(|| BEGIN.len() + number.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_line_ends_tabs_and_styles_reach_a_terminal() {
        for (text, expected) in [
            ("plain é\n\tx", "plain é\n\tx"),
            ("\u{1b}[1m\u{1b}[31merror:\u{1b}[0m x", "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m x"),
            ("\u{1b}[8mhidden", "\\u{1b}[8mhidden"),
            ("\u{1b}[2Jx\u{1b}", "\\u{1b}[2Jx\\u{1b}"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("\u{9b}2J \u{202e}x\r", "\\u{9b}2J \\u{202e}x\\r"),
            ("\u{1b}[+1m\u{1b}[001m", "\\u{1b}[+1m\\u{1b}[001m"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn a_text_of_many_beginnings_is_shown_at_once() {
        let text = "\u{1b}[".repeat(1 << 18);
        let start = std::time::Instant::now();
        assert_eq!(shown(&text).len(), text.len() / 2 * "\\u{1b}[".len());
        // It took half a minute when each was searched to the end.
        assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    }

    #[test]
    fn json_means_the_same_and_is_printable() {
        let text = "\u{1b}[31m \u{9b} \u{202e} \u{7f} é\n";
        let json = json(&text).unwrap();
        assert!(!json.contains(is_unprintable), "{json:?}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}

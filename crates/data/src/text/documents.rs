//! The documents of a file, read in pieces: a file may be larger than the memory.

use std::{ops::ControlFlow, path::Path};

use oomph_core::Bytes;
use oomph_tokens::cut;
use serde_json::{Map, Value};

use super::{corpus::Reading, parquet};
use crate::{
    DataError, Flaw, FormatProblem,
    detect::has_ending,
    input::{Input, read_file},
};

/// Bytes that are read at a time.
const BLOCK: usize = 1 << 20;

/// A text without white space is cut anyway after so many bytes.
const LONGEST_PIECE: usize = 16 << 20;

/// The longest line of JSON.
const LONGEST_LINE: usize = 64 << 20;

/// What comes next in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextPart<'a> {
    /// A piece of a document, cut where tokens may be cut.
    Text(&'a str),
    /// The end of a document.
    End,
}

/// Receives the parts of a file, in order, and says whether it wants more.
pub(crate) type Visitor<'a> = dyn FnMut(TextPart<'_>) -> ControlFlow<()> + 'a;

/// How documents are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextKind {
    /// A file is a document.
    Plain,
    /// A line is an object with a document.
    JsonLines,
    /// A row has a document in one of its columns.
    Parquet,
}

/// The endings of files with texts.
pub(crate) const ENDINGS: [&str; 3] = ["txt", "jsonl", "parquet"];

impl TextKind {
    /// By the name of a file.
    pub(super) fn of(path: &Path) -> Self {
        match () {
            () if has_ending(path, &["jsonl"]) => Self::JsonLines,
            () if has_ending(path, &["parquet"]) => Self::Parquet,
            () => Self::Plain,
        }
    }
}

/// Passes the documents of a file to `each`.
pub(crate) fn visit(path: &Path, reading: &Reading, each: &mut Visitor<'_>) -> Result<(), DataError> {
    let limit = reading.max_file_bytes;
    match TextKind::of(path) {
        TextKind::Plain => read_file(path, limit, |input| plain(input, each)),
        TextKind::JsonLines => read_file(path, limit, |input| json_lines(input, &reading.text_key, each)),
        TextKind::Parquet => parquet::visit(path, reading, each),
    }
}

/// A text in pieces.
pub(crate) fn plain(mut input: Input<'_>, each: &mut Visitor<'_>) -> Result<(), Flaw> {
    let mut waiting: Vec<u8> = Vec::new();
    // The place of the first waiting byte.
    let mut start = 0;
    loop {
        let block = input.next_bytes(BLOCK as u64)?;
        let is_end = block.is_empty();
        waiting.extend_from_slice(&block);
        let text = match std::str::from_utf8(&waiting) {
            Ok(text) => text,
            // A character that the block cuts.
            Err(error) if error.error_len().is_none() && !is_end => {
                std::str::from_utf8(&waiting[..error.valid_up_to()]).unwrap_or_default()
            }
            Err(error) => return Err(Flaw::new(start + error.valid_up_to(), FormatProblem::NotUtf8)),
        };
        let end = match cut(text, text.len()) {
            _ if is_end || text.len() >= LONGEST_PIECE => text.len(),
            end => end.unwrap_or(0),
        };
        if end > 0 && each(TextPart::Text(&text[..end])).is_break() {
            return Ok(());
        }
        waiting.drain(..end);
        start += end;
        if is_end {
            let _ = each(TextPart::End);
            return Ok(());
        }
    }
}

/// The document of each line. Empty lines are passed over.
pub(crate) fn json_lines(mut input: Input<'_>, key: &str, each: &mut Visitor<'_>) -> Result<(), Flaw> {
    let mut waiting: Vec<u8> = Vec::new();
    let (mut line, mut start) = (1u64, 0);
    loop {
        let mut searched = waiting.len();
        let block = input.next_bytes(BLOCK as u64)?;
        let is_end = block.is_empty();
        waiting.extend_from_slice(&block);
        let mut done = 0;
        loop {
            let newline = waiting[searched..].iter().position(|byte| *byte == b'\n');
            let Some(end) = newline.map(|at| searched + at).or(is_end.then_some(waiting.len())) else {
                break;
            };
            let json = waiting[done..end].trim_ascii();
            if !json.is_empty() {
                let text = document(json, key, line).map_err(|problem| Flaw::new(start + done, problem))?;
                if each(TextPart::Text(&text)).is_break() || each(TextPart::End).is_break() {
                    return Ok(());
                }
            }
            if newline.is_none() {
                return Ok(());
            }
            (done, searched, line) = (end + 1, end + 1, line + 1);
        }
        waiting.drain(..done);
        start += done;
        if waiting.len() > LONGEST_LINE {
            let limit = Bytes::new(LONGEST_LINE as u64);
            return Err(Flaw::new(start, FormatProblem::LongLine { line, limit }));
        }
    }
}

/// The text under `key` in a line of JSON.
fn document(json: &[u8], key: &str, line: u64) -> Result<String, FormatProblem> {
    let object: Result<Map<String, Value>, _> = serde_json::from_slice(json);
    let mut object = object.map_err(|error| FormatProblem::NotJson { line, error })?;
    let found = match object.remove(key) {
        Some(Value::String(text)) => return Ok(text),
        None => "missing",
        Some(Value::Null) => "`null`",
        Some(Value::Bool(_)) => "a truth value",
        Some(Value::Number(_)) => "a number",
        Some(Value::Array(_)) => "a list",
        Some(Value::Object(_)) => "an object",
    };
    Err(FormatProblem::NoText { line, key: key.to_owned(), found })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(bytes: &[u8]) -> Input<'_> {
        Input::new(bytes, bytes.len() as u64, Bytes::mib(64)).expect("small enough")
    }

    /// The documents, each with the number of its pieces.
    fn documents(
        visit: impl FnOnce(&mut Visitor<'_>) -> Result<(), Flaw>,
    ) -> Result<Vec<(String, usize)>, Flaw> {
        let (mut documents, mut open) = (Vec::new(), (String::new(), 0));
        visit(&mut |part| {
            match part {
                TextPart::Text(text) => {
                    open.0.push_str(text);
                    open.1 += 1;
                }
                TextPart::End => documents.push(std::mem::take(&mut open)),
            }
            ControlFlow::Continue(())
        })?;
        Ok(documents)
    }

    #[test]
    fn a_long_text_comes_in_pieces_that_no_word_crosses() {
        let text = "한국어 text, ".repeat(300_000);
        let found = documents(|each| plain(input(text.as_bytes()), each)).expect("UTF-8");
        assert_eq!(found.len(), 1);
        assert!(found[0].0 == text && found[0].1 > 4, "{} pieces", found[0].1);
        let solid = "x".repeat(3 << 20);
        let found = documents(|each| plain(input(solid.as_bytes()), each)).expect("UTF-8");
        assert_eq!(found, [(solid, 1)]);
    }

    #[test]
    fn the_byte_that_is_no_utf8_is_named() {
        let mut bytes = "한 ".repeat(500_000).into_bytes();
        let place = bytes.len();
        bytes.extend(b"\xffrest");
        let flaw = documents(|each| plain(input(&bytes), each)).expect_err("not UTF-8");
        assert_eq!(flaw.byte, place as u64);
        assert!(documents(|each| plain(input(b"caf\xc3"), each)).is_err());
    }

    #[test]
    fn each_line_of_json_is_a_document() {
        let lines =
            b"{\"text\": \"one\\n\"}\n\n  {\"id\": 7, \"text\": \"\xed\x95\x9c\"}\r\n{\"text\": \"\"}";
        let found = documents(|each| json_lines(input(lines), "text", each)).expect("JSON lines");
        assert_eq!(found, [("one\n".to_owned(), 1), ("한".to_owned(), 1), (String::new(), 1)]);
        let long = format!("{{\"body\": \"{}\"}}\n", "word ".repeat(500_000)).repeat(2);
        let found = documents(|each| json_lines(input(long.as_bytes()), "body", each)).expect("JSON lines");
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].0.len(), 2_500_000);
    }

    #[test]
    fn a_wrong_line_is_named_with_key_and_reason() {
        let message = |lines: &[u8]| {
            let flaw = documents(|each| json_lines(input(lines), "text", each)).expect_err("wrong");
            flaw.to_string()
        };
        let start = b"{\"text\": \"one\"}\n";
        let with = |line: &[u8]| message(&[&start[..], line].concat());
        assert!(with(b"{\"text\": 1}").contains("byte 16: line 2: `text` is a number; expected a text"));
        assert!(with(b"{\"body\": \"x\"}").contains("line 2: `text` is missing"));
        assert!(with(b"[1]").contains("line 2: this is not a JSON object"));
        assert!(with(b"{\"text\": \"\xff\"}").contains("line 2: this is not a JSON object"));
    }
}

use std::{
    fs, io,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use oomph_core::Bytes;

use super::documents::{ENDINGS, TextKind, TextPart, visit};
use crate::{
    DataError, Flaw, FormatProblem,
    detect::has_ending,
    input::{Input, read_file},
};

/// How the files of a text are read.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// The key of the text in JSON lines, or the column in Parquet files.
    pub(crate) text_key: String,
    /// A larger file is refused.
    pub(crate) max_file_bytes: Bytes,
}

/// The file at `path`, or the `.txt`, `.jsonl` and `.parquet` files of that folder in the order of their names, without subfolders and
/// hidden files.
pub(crate) fn files(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    let metadata = fs::metadata(path).map_err(|error| failed(path, error))?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| failed(path, error))? {
        let file = entry.map_err(|error| failed(path, error))?.path();
        let hidden = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if has_ending(&file, &ENDINGS) && !hidden && file.is_file() {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(DataError::NoTexts { path: path.to_owned() });
    }
    files.sort();
    Ok(files)
}

/// The whole text of the files. The end of a file or of a document ends a line.
pub(crate) fn read(files: &[PathBuf], reading: &Reading) -> Result<String, DataError> {
    let mut text = String::new();
    let mut add = |more: &str| {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(more);
    };
    for file in files {
        match TextKind::of(file) {
            TextKind::Plain => add(&read_file(file, reading.max_file_bytes, decode)?),
            // A document of these is one part.
            TextKind::JsonLines | TextKind::Parquet => visit(file, reading, &mut |part| {
                if let TextPart::Text(document) = part {
                    add(document);
                }
                ControlFlow::Continue(())
            })?,
        }
    }
    Ok(text)
}

/// The text of a file, plain or as `.gz`.
pub(crate) fn decode(mut input: Input<'_>) -> Result<String, Flaw> {
    let text = String::from_utf8(input.rest()?);
    text.map_err(|error| Flaw::new(error.utf8_error().valid_up_to(), FormatProblem::NotUtf8))
}

fn failed(path: &Path, source: io::Error) -> DataError {
    match source.kind() {
        io::ErrorKind::NotFound => DataError::NoText { path: path.to_owned() },
        _ => DataError::Io { path: path.to_owned(), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(max_file_bytes: Bytes) -> Reading {
        Reading { text_key: "text".to_owned(), max_file_bytes }
    }

    #[test]
    fn the_texts_of_a_folder_follow_by_name_line_by_line() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("b.txt", "second\n");
        write("a.TXT", "first");
        write("c.txt", "third");
        write(".hidden.txt", "never");
        write("notes.md", "never");
        fs::create_dir(folder.path().join("d.txt")).unwrap();
        write("c1.jsonl", "{\"text\": \"fourth\"}\n\n{\"id\": 1, \"text\": \"fifth\"}");
        let files = files(folder.path()).unwrap();
        let text = read(&files, &reading(Bytes::mib(1))).unwrap();
        assert_eq!((text.as_str(), files.len()), ("first\nsecond\nthird\nfourth\nfifth", 4));
    }

    #[test]
    fn unreadable_texts_are_named_with_the_byte() {
        let folder = tempfile::tempdir().unwrap();
        let message = |path: &Path| {
            let read = files(path).and_then(|files| read(&files, &reading(Bytes::new(8))));
            read.unwrap_err().to_string()
        };
        assert!(message(folder.path()).contains("has no `.txt`, `.jsonl` or `.parquet` files"));
        assert!(message(&folder.path().join("gone")).contains("does not exist"));
        let file = folder.path().join("a.txt");
        fs::write(&file, b"caf\xe9").unwrap();
        let found = message(&file);
        assert!(found.contains("byte 3") && found.contains("the text is not UTF-8"), "{found}");
        fs::write(&file, b"123456789").unwrap();
        let found = message(&file);
        assert!(found.contains("above `data.max_file_bytes` of 8 B"), "{found}");
    }
}

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use oomph_core::Bytes;

use crate::{
    DataError, Flaw, FormatProblem,
    input::{Input, read_file},
};

/// The text in the file at `path`, or in all `.txt` files of that folder, in the order of their names; and the number of
/// files.
pub(crate) fn read(path: &Path, max_file_bytes: Bytes) -> Result<(String, usize), DataError> {
    let metadata = fs::metadata(path).map_err(|error| failed(path, error))?;
    let files = if metadata.is_dir() { texts(path)? } else { vec![path.to_owned()] };
    let mut text = String::new();
    for file in &files {
        let more = read_file(file, max_file_bytes, decode)?;
        // The end of a file ends a line.
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&more);
    }
    Ok((text, files.len()))
}

/// The `.txt` files of a folder, without subfolders and hidden files.
fn texts(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
        let path = entry.map_err(|error| failed(folder, error))?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let is_text = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("txt"));
        if is_text && !hidden && path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(DataError::NoTexts { path: folder.to_owned() });
    }
    files.sort();
    Ok(files)
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
        let (text, files) = read(folder.path(), Bytes::mib(1)).unwrap();
        assert_eq!((text.as_str(), files), ("first\nsecond\nthird", 3));
    }

    #[test]
    fn unreadable_texts_are_named_with_the_byte() {
        let folder = tempfile::tempdir().unwrap();
        let message = |path: &Path| read(path, Bytes::new(8)).unwrap_err().to_string();
        assert!(message(folder.path()).contains("has no `.txt` files"));
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

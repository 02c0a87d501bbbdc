//! The file of tokens of a text: encoded once, and kept in the cache.

use std::{
    fs,
    io::{self, Read},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use oomph_core::open_file;
use oomph_tokens::{TextDigests, TokenFile, TokenWriter, Tokenizer};
use sha2::{Digest, Sha256};

use super::{
    corpus::Reading,
    documents::{TextPart, visit},
};
use crate::{DataError, OpenContext, OpenEvent};

/// The tokens of a text. The file of an earlier run serves if it is of this text and this tokenizer; else the text is encoded,
/// and the file replaced.
///
/// # Errors
/// Files that cannot be read, a full disk, and a file in the cache that was damaged.
pub(super) fn tokens(
    tokenizer: &Tokenizer,
    path: &Path,
    files: &[PathBuf],
    reading: &Reading,
    context: &OpenContext,
) -> Result<TokenFile, DataError> {
    let digests = TextDigests { text: digest(files, reading)?, tokenizer: tokenizer.digest() };
    let packed = context.cache_dir.join(format!("tokens-{}.bin", name(path, tokenizer)));
    if let Some(file) = TokenFile::open_of(&packed, digests)? {
        return Ok(file);
    }
    let metadata = files.iter().filter_map(|file| fs::metadata(file).ok());
    context.tell(&OpenEvent::Encoding { text: path, bytes: metadata.map(|it| it.len()).sum() });
    let file = encode(files, reading, TokenWriter::create(&packed, tokenizer, digests.text)?)?;
    context.tell(&OpenEvent::Encoded { tokens: file.tokens(), path: &packed });
    Ok(file)
}

/// A name for each pair of text and tokenizer, so that a text that changes replaces its own file.
fn name(path: &Path, tokenizer: &Tokenizer) -> String {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut digest = Sha256::new();
    digest.update(path.as_os_str().as_encoded_bytes());
    digest.update(tokenizer.digest());
    digest.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The SHA-256 of the names and bytes of the files, and of how they are read.
fn digest(files: &[PathBuf], reading: &Reading) -> Result<[u8; 32], DataError> {
    /// Changes with what becomes of the bytes.
    const VERSION: u32 = 1;
    let mut digest = Sha256::new();
    digest.update(format!("{VERSION} {}\0", reading.text_key));
    let mut block = vec![0; 1 << 18];
    for path in files {
        let failed = |source| DataError::Io { path: path.clone(), source };
        let mut file = open_file(path).map_err(failed)?;
        digest.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        let length = file.metadata().map_err(failed)?.len();
        digest.update(length.to_le_bytes());
        loop {
            match file.read(&mut block) {
                Ok(0) => break,
                Ok(count) => digest.update(&block[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
    Ok(digest.finalize().into())
}

/// Encodes the documents of the files.
fn encode(files: &[PathBuf], reading: &Reading, mut writer: TokenWriter) -> Result<TokenFile, DataError> {
    let mut failed = None;
    for file in files {
        visit(file, reading, &mut |part| {
            match part {
                TextPart::Text(text) => failed = writer.add_text(text).err(),
                TextPart::End => writer.end_document(),
            }
            if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if let Some(error) = failed.take() {
            return Err(error.into());
        }
    }
    Ok(writer.finish()?)
}

#[cfg(test)]
mod tests {
    use oomph_core::Bytes;
    use oomph_tokens::Trainer;

    use super::*;

    struct Cached {
        folder: tempfile::TempDir,
        tokenizer: Tokenizer,
    }

    impl Cached {
        fn new() -> Self {
            let mut trainer = Trainer::new();
            trainer.add(&"to be, or not to be. ".repeat(20));
            let folder = tempfile::tempdir().expect("a temporary folder");
            Self { folder, tokenizer: trainer.train(280).tokenizer }
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.folder.path().join(name);
            fs::write(&path, text).expect("written");
            path
        }

        fn cache(&self) -> PathBuf {
            self.folder.path().join("cache")
        }

        fn tokens(&self, files: &[PathBuf]) -> Result<TokenFile, DataError> {
            let reading = Reading { text_key: "text".to_owned(), max_file_bytes: Bytes::mib(64) };
            let context = OpenContext::new(self.cache(), 0);
            tokens(&self.tokenizer, &files[0], files, &reading, &context)
        }

        fn text(&self, file: &TokenFile) -> String {
            self.tokenizer.decode(&file.read(0..file.tokens()).expect("whole"))
        }
    }

    #[test]
    fn documents_of_texts_and_json_lines_are_divided_by_a_token() {
        let place = Cached::new();
        let files = [
            place.write("a.txt", "to be\n"),
            place.write("b.jsonl", "{\"text\": \"or not\"}\n{\"text\": \"\"}\n{\"text\": \"한\"}\n"),
            place.write("c.txt", ""),
        ];
        let file = place.tokens(&files).expect("encoded");
        assert_eq!(place.text(&file), "to be\n<|endoftext|>or not<|endoftext|>한");
        assert_eq!(file.documents(), 3);
    }

    #[test]
    fn a_file_serves_until_text_or_tokenizer_change() {
        let mut place = Cached::new();
        let files = [place.write("a.txt", "to be, or not")];
        let path = place.tokens(&files).expect("encoded").path().to_owned();
        let made = || fs::metadata(&path).and_then(|it| it.modified()).expect("a file");
        let first = made();
        place.tokens(&files).expect("there");
        assert_eq!(made(), first);
        // The same size, and other bytes.
        place.write("a.txt", "or not, to be");
        let again = place.tokens(&files).expect("encoded again");
        assert_eq!((again.path(), place.text(&again)), (&*path, "or not, to be".to_owned()));
        place.tokenizer = Trainer::new().train(257).tokenizer;
        let other = place.tokens(&files).expect("encoded again");
        assert_ne!(other.path(), path);
        assert_eq!(other.tokens(), 13);
        assert_eq!(fs::read_dir(place.cache()).expect("a folder").count(), 2);
    }

    #[test]
    fn a_damaged_file_is_refused_and_a_failed_one_leaves_nothing() {
        let place = Cached::new();
        let files = [place.write("a.txt", "to be, or not")];
        let path = place.tokens(&files).expect("encoded").path().to_owned();
        let bytes = fs::read(&path).expect("a file");
        fs::write(&path, &bytes[..bytes.len() - 1]).expect("cut");
        let error = place.tokens(&files).expect_err("cut");
        assert!(error.to_string().contains("its header announces"), "{error}");
        assert!(error.hint().expect("a hint").contains("delete the file"));
        fs::remove_file(&path).expect("removed");
        fs::write(&files[0], b"to be \xff").expect("written");
        place.tokens(&files).expect_err("not UTF-8");
        assert_eq!(fs::read_dir(place.cache()).expect("a folder").count(), 0);
    }
}

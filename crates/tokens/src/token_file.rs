use std::{
    fs::{self, File},
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    ops::Range,
    path::{Path, PathBuf},
};

use oomph_core::{
    files::{create_fresh, unfinished},
    open_file,
    system::read_exact_at,
};
use sha2::{Digest, Sha256};

use crate::{TokenFileError, TokenFileProblem, Tokenizer};

/// The first bytes of a file of tokens.
const MAGIC: [u8; 8] = *b"oomphtok";

/// The version of the format.
const VERSION: u32 = 1;

/// Bytes before the first token.
const HEADER: usize = 128;

/// What tokens were made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextDigests {
    /// The SHA-256 of the text's files.
    pub text: [u8; 32],
    /// The SHA-256 of the tokenizer.
    pub tokenizer: [u8; 32],
}

/// The header of a file, in little-endian order.
///
/// | bytes | content |
/// |---|---|
/// | 0–7 | `oomphtok` |
/// | 8–11 | the format version, 1 |
/// | 12–15 | bytes of a token: 2, or 4 for vocabularies of more than 65,536 tokens |
/// | 16–23 | tokens |
/// | 24–31 | documents |
/// | 32–63 | the SHA-256 of the text's files |
/// | 64–95 | the SHA-256 of the tokenizer |
/// | 96–127 | the SHA-256 of bytes 0 to 95 |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    width: u32,
    tokens: u64,
    documents: u64,
    digests: TextDigests,
}

impl Header {
    fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.width.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.tokens.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.documents.to_le_bytes());
        bytes[32..64].copy_from_slice(&self.digests.text);
        bytes[64..96].copy_from_slice(&self.digests.tokenizer);
        let digest = Sha256::digest(&bytes[..96]);
        bytes[96..].copy_from_slice(&digest);
        bytes
    }

    fn decode(bytes: &[u8; HEADER]) -> Result<Self, TokenFileProblem> {
        if bytes[..8] != MAGIC {
            return Err(TokenFileProblem::Magic);
        }
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let digest = |at: usize| std::array::from_fn(|byte| bytes[at + byte]);
        let found = number(8);
        if found != VERSION {
            return Err(TokenFileProblem::Version { found, expected: VERSION });
        }
        let width = number(12);
        if Sha256::digest(&bytes[..96])[..] != bytes[96..] || !matches!(width, 2 | 4) {
            return Err(TokenFileProblem::Header);
        }
        let digests = TextDigests { text: digest(32), tokenizer: digest(64) };
        Ok(Self { width, tokens: long(16), documents: long(24), digests })
    }

    /// The size of the whole file, in bytes.
    fn file_bytes(&self) -> Option<u64> {
        self.tokens.checked_mul(u64::from(self.width))?.checked_add(HEADER as u64)
    }
}

/// The tokens of a text, on disk. Only the tokens that are asked for are read: the system keeps what is in use in its cache.
///
/// They are read by position, and not mapped into memory: a mapped file that shrinks ends the process, and mapping is
/// `unsafe`. Copies of the handle may read at the same time.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
    file: File,
    header: Header,
}

impl TokenFile {
    /// Opens a file and checks its header and its size.
    ///
    /// # Errors
    /// A file that cannot be read, that was damaged or cut, or that a newer oomph wrote.
    pub fn open(path: &Path) -> Result<Self, TokenFileError> {
        let open = || {
            let file = open_file(path).map_err(TokenFileProblem::Read)?;
            let found = file.metadata().map_err(TokenFileProblem::Read)?.len();
            let header = parse(&file, found)?;
            Ok(Self { path: path.to_owned(), file, header })
        };
        open().map_err(|problem| TokenFileError { path: path.to_owned(), problem })
    }

    /// Opens the file if it is there and was made from these; `None` where a new one is due.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_of(path: &Path, digests: TextDigests) -> Result<Option<Self>, TokenFileError> {
        match Self::open(path) {
            Ok(file) => Ok(Some(file).filter(|file| file.digests() == digests)),
            Err(TokenFileError { problem: TokenFileProblem::Read(error), .. })
                if error.kind() == io::ErrorKind::NotFound =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Checks the bytes of a file: what the fuzzer feeds.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn check(bytes: &[u8]) -> Result<(), TokenFileProblem> {
        parse(bytes, bytes.len() as u64).map(drop)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of tokens.
    pub fn tokens(&self) -> u64 {
        self.header.tokens
    }

    /// The number of documents.
    pub fn documents(&self) -> u64 {
        self.header.documents
    }

    /// What the tokens were made from.
    pub fn digests(&self) -> TextDigests {
        self.header.digests
    }

    /// The tokens of a range.
    ///
    /// # Errors
    /// A range beyond the end, and a file that shrank or cannot be read.
    pub fn read(&self, range: Range<u64>) -> io::Result<Vec<u32>> {
        let Header { width, tokens, .. } = self.header;
        if range.start > range.end || range.end > tokens {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let count = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
        let mut bytes = vec![0; count * width as usize];
        read_exact_at(&self.file, &mut bytes, HEADER as u64 + range.start * u64::from(width))?;
        Ok(match width {
            2 => bytes.as_chunks().0.iter().map(|token| u32::from(u16::from_le_bytes(*token))).collect(),
            _ => bytes.as_chunks().0.iter().map(|token| u32::from_le_bytes(*token)).collect(),
        })
    }
}

impl TokenFile {
    /// The UTF-8 bytes of the text of a range of tokens. The token between documents is no text.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn text_bytes(&self, range: Range<u64>, tokenizer: &Tokenizer) -> io::Result<u64> {
        const PIECE: u64 = 1 << 20;
        let (mut bytes, mut from) = (0, range.start);
        while from < range.end {
            let to = range.end.min(from + PIECE);
            let tokens = self.read(from..to)?.into_iter();
            let tokens = tokens.filter(|token| Some(*token) != tokenizer.end_of_document());
            bytes += tokens.map(|token| tokenizer.bytes(token).map_or(0, <[u8]>::len) as u64).sum::<u64>();
            from = to;
        }
        Ok(bytes)
    }
}

/// The header of a file of `found` bytes.
fn parse(mut file: impl Read, found: u64) -> Result<Header, TokenFileProblem> {
    let mut bytes = [0; HEADER];
    if found < HEADER as u64 {
        let mut first = [0; 8];
        let is_begun = file.read_exact(&mut first).is_ok() && first == MAGIC;
        let cut = TokenFileProblem::Length { found, expected: HEADER as u64 };
        return Err(if is_begun { cut } else { TokenFileProblem::Magic });
    }
    file.read_exact(&mut bytes).map_err(TokenFileProblem::Read)?;
    let header = Header::decode(&bytes)?;
    match header.file_bytes() {
        Some(expected) if expected == found => Ok(header),
        expected => Err(TokenFileProblem::Length { found, expected: expected.unwrap_or(u64::MAX) }),
    }
}

/// Writes a file of tokens beside its final name; under that it is complete or absent.
///
/// Between two documents is the tokenizer's own token, or else the end of a line.
#[derive(Debug)]
pub struct TokenWriter {
    path: PathBuf,
    tokenizer: Tokenizer,
    /// Whether the text so far ends a line; `None` before the first document.
    ends_line: Option<bool>,
    /// Whether a document has begun.
    is_open: bool,
    /// The name until the file is complete.
    beside: PathBuf,
    file: Option<BufWriter<File>>,
    header: Header,
}

impl TokenWriter {
    /// Begins a file for the tokens of a text whose files have this SHA-256. Its folder is made.
    ///
    /// # Errors
    /// The system refuses.
    pub fn create(path: &Path, tokenizer: &Tokenizer, text: [u8; 32]) -> Result<Self, TokenFileError> {
        let beside = unfinished(path);
        let digests = TextDigests { text, tokenizer: tokenizer.digest() };
        let width = if tokenizer.size() <= 1 << 16 { 2 } else { 4 };
        let create = || {
            fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
            let mut file = BufWriter::new(create_fresh(&beside)?);
            file.write_all(&[0; HEADER])?;
            Ok(file)
        };
        let file = create().map_err(|error| TokenFileError {
            path: path.to_owned(),
            problem: TokenFileProblem::Write(error),
        })?;
        let header = Header { width, tokens: 0, documents: 0, digests };
        let (path, tokenizer) = (path.to_owned(), tokenizer.clone());
        Ok(Self { path, tokenizer, ends_line: None, is_open: false, beside, file: Some(file), header })
    }

    /// Adds a piece of a document.
    ///
    /// # Errors
    /// The disk is full, or the system refuses.
    pub fn add_text(&mut self, text: &str) -> Result<(), TokenFileError> {
        if text.is_empty() {
            return Ok(());
        }
        if !self.is_open {
            match (self.ends_line, self.tokenizer.end_of_document()) {
                (Some(_), Some(token)) => self.add(&[token])?,
                (Some(false), None) => self.add(&self.tokenizer.encode("\n"))?,
                (Some(true), None) | (None, _) => {}
            }
        }
        (self.is_open, self.ends_line) = (true, Some(text.ends_with('\n')));
        self.add(&self.tokenizer.encode(text))
    }

    fn add(&mut self, tokens: &[u32]) -> Result<(), TokenFileError> {
        let width = self.header.width;
        let write = |file: &mut BufWriter<File>| match width {
            // The vocabulary has at most 65,536 tokens.
            2 => tokens.iter().try_for_each(|token| file.write_all(&(*token as u16).to_le_bytes())),
            _ => tokens.iter().try_for_each(|token| file.write_all(&token.to_le_bytes())),
        };
        self.file.as_mut().map_or(Ok(()), write).map_err(|error| self.refused(error))?;
        self.header.tokens += tokens.len() as u64;
        Ok(())
    }

    /// Ends the document. One without a text does not count.
    pub fn end_document(&mut self) {
        self.header.documents += u64::from(self.is_open);
        self.is_open = false;
    }

    /// Writes the header, flushes the file to the disk and gives it its name, in the place of an earlier one.
    ///
    /// # Errors
    /// As [`add_text`](Self::add_text).
    pub fn finish(mut self) -> Result<TokenFile, TokenFileError> {
        let header = self.header.encode();
        let finish = |file: Option<BufWriter<File>>| -> io::Result<()> {
            // Only `finish` takes the file, and takes the writer too.
            let Some(file) = file else { return Ok(()) };
            let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&header)?;
            file.sync_all()
        };
        let file = self.file.take();
        finish(file)
            .and_then(|()| fs::rename(&self.beside, &self.path))
            .map_err(|error| self.refused(error))?;
        TokenFile::open(&self.path)
    }

    fn refused(&self, error: io::Error) -> TokenFileError {
        TokenFileError { path: self.path.clone(), problem: TokenFileProblem::Write(error) }
    }
}

impl Drop for TokenWriter {
    /// Removes what is not complete.
    fn drop(&mut self) {
        // A complete file has its final name, so there is nothing to remove. What cannot be removed is left.
        let _ = fs::remove_file(&self.beside);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Trainer;

    const TEXT: [u8; 32] = [1; 32];

    fn bytes() -> Tokenizer {
        Trainer::new().train(257).tokenizer
    }

    fn written(path: &Path, tokens: &[u32]) -> TokenFile {
        let mut writer = TokenWriter::create(path, &bytes(), TEXT).expect("a folder");
        // As for a large vocabulary, where a token needs it.
        writer.header.width = if tokens.iter().any(|token| *token > 0xffff) { 4 } else { 2 };
        for piece in tokens.chunks(3) {
            writer.add(piece).expect("space");
        }
        writer.finish().expect("space")
    }

    #[test]
    fn tokens_come_back_in_two_or_four_bytes() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (width, tokens) in [(2, [0, 7, 65_535, 1]), (4, [0, 65_536, 3, 16_777_215])] {
            let path = folder.path().join("deep/tokens.bin");
            let file = written(&path, &tokens);
            let digests = TextDigests { text: TEXT, tokenizer: bytes().digest() };
            assert_eq!((file.tokens(), file.documents(), file.digests()), (4, 0, digests));
            assert!(TokenFile::open_of(&path, digests).expect("whole").is_some());
            let other = TextDigests { text: [2; 32], ..digests };
            assert!(TokenFile::open_of(&path, other).expect("whole").is_none());
            assert_eq!(file.read(0..4).expect("whole"), tokens);
            assert_eq!(file.read(1..3).expect("a part"), tokens[1..3]);
            assert!(file.read(3..5).is_err());
            let bytes = fs::metadata(&path).expect("a file").len();
            assert_eq!(bytes, HEADER as u64 + 4 * width);
        }
    }

    #[test]
    fn documents_are_divided_and_their_bytes_counted() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tokenizer = bytes();
        let mut writer =
            TokenWriter::create(&folder.path().join("x.bin"), &tokenizer, TEXT).expect("a folder");
        for document in ["to", "", "한\n", "be"] {
            writer.add_text(document).expect("space");
            writer.end_document();
        }
        let file = writer.finish().expect("space");
        let tokens = file.read(0..file.tokens()).expect("whole");
        assert_eq!(tokenizer.decode(&tokens), "to<|endoftext|>한\n<|endoftext|>be");
        let bytes = file.text_bytes(0..file.tokens(), &tokenizer).expect("whole");
        assert_eq!((file.documents(), bytes), (3, 8));
    }

    #[test]
    fn a_file_that_is_not_finished_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("tokens.bin");
        drop(TokenWriter::create(&path, &bytes(), TEXT).expect("a folder"));
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn damaged_files_are_refused_with_the_reason() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("tokens.bin");
        written(&path, &[1, 2, 3]);
        let whole = fs::read(&path).expect("a file");
        let refused = |bytes: &[u8], reason: &str| {
            fs::write(&path, bytes).expect("written");
            let found = TokenFile::open(&path).expect_err("damaged").to_string();
            assert!(found.contains(reason) && found.contains("tokens.bin"), "{found}");
            assert!(TokenFile::check(bytes).is_err());
        };
        refused(b"", "it begins with other bytes");
        refused(&[b'x'; 200], "it begins with other bytes");
        refused(&whole[..50], "has 50 bytes; its header announces 128");
        refused(&whole[..whole.len() - 1], "has 133 bytes; its header announces 134");
        let mut changed = whole.clone();
        changed[16] += 1;
        refused(&changed, "its checksum differs");
        changed[8] = 9;
        refused(&changed, "has the format version 9; expected 1");
        // A header that announces more than there can be.
        let digests = TextDigests { text: TEXT, tokenizer: TEXT };
        let huge = Header { width: 4, tokens: u64::MAX, documents: 0, digests }.encode();
        refused(&huge, "its header announces");
    }

    #[test]
    fn a_file_that_shrinks_while_it_is_open_gives_an_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("tokens.bin");
        let file = written(&path, &[1, 2, 3]);
        File::options().write(true).open(&path).expect("a file").set_len(130).expect("cut");
        assert_eq!(file.read(0..1).expect("still there"), [1]);
        assert!(file.read(0..3).is_err());
    }
}

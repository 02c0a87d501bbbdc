//! The parsers. A new one is an entry of a list in one of these files.

mod data;
mod machine;
mod messages;
mod run_files;
mod settings;
mod weights;

/// The largest input.
pub(crate) const MOST_BYTES: usize = 1 << 20;

const KIB: usize = 1 << 10;

/// A parser and its inputs.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Whether the parser accepts an input.
    pub(crate) parse: fn(&[u8]) -> bool,
    /// Valid inputs, to be damaged.
    pub(crate) seeds: Vec<Vec<u8>>,
    /// Parts of valid inputs, where they are text.
    pub(crate) words: &'static [&'static [u8]],
    /// What opens something that may hold more of itself, and what closes it.
    pub(crate) pairs: &'static [(&'static [u8], &'static [u8])],
    /// Completes a damaged input, such as by compression or a checksum, so that the parser reads on.
    pub(crate) finish: fn(Vec<u8>) -> Vec<u8>,
    /// The most bytes that parsing an input may allocate.
    pub(crate) bound: fn(&[u8]) -> usize,
    /// Its share of the inputs, relative to the others: a parser that takes long gets fewer.
    pub(crate) share: u64,
    /// The largest input: what it is read from holds no more.
    pub(crate) largest: usize,
    /// One input in so many is large.
    pub(crate) one_large_in: usize,
}

/// The share of a parser that takes a few microseconds.
const WHOLE_SHARE: u64 = 100;

impl Target {
    /// A parser of bytes that allocates as much as they are, several times over.
    fn new(name: &'static str, parse: fn(&[u8]) -> bool, seeds: Vec<Vec<u8>>) -> Self {
        Self {
            name,
            parse,
            seeds,
            words: &[],
            pairs: &[],
            finish: |bytes| bytes,
            bound: |bytes| 8 * bytes.len() + 4 * KIB,
            share: WHOLE_SHARE,
            largest: MOST_BYTES,
            one_large_in: 4000,
        }
    }

    /// A parser that takes so much longer than others that it gets this share. Of its inputs more are large.
    fn rare(self, share: u64) -> Self {
        Self { share, one_large_in: (self.one_large_in / 10).max(1), ..self }
    }

    /// A parser of JSON, whose values take more memory than their digits.
    fn json(name: &'static str, parse: fn(&[u8]) -> bool, seeds: Vec<Vec<u8>>) -> Self {
        Self {
            words: JSON,
            pairs: JSON_PAIRS,
            bound: |bytes| 64 * bytes.len() + 4 * KIB,
            ..Self::new(name, parse, seeds)
        }
    }

    /// A parser of text.
    fn text(name: &'static str, parse: fn(&[u8]) -> bool, seeds: &[&str]) -> Self {
        Self::new(name, parse, seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect())
    }
}

/// All parsers of files, texts and messages from outside.
pub(crate) fn targets() -> Vec<Target> {
    let lists = [
        data::targets(),
        run_files::targets(),
        weights::targets(),
        settings::targets(),
        messages::targets(),
        machine::targets(),
    ];
    lists.into_iter().flatten().collect()
}

/// The text of an input, as the program reads texts that may hold anything.
fn lossy(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

const JSON: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b",",
    b":",
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"1e-999",
    b"\\u0000",
    b"\\ud800",
    b"\"F32\"",
    b"18446744073709551616",
];
const JSON_PAIRS: &[(&[u8], &[u8])] = &[(b"[", b"]"), (b"{\"a\":", b"}"), (b"[[],", b"]")];

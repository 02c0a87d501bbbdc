use std::path::Path;

/// Events of long operations while data is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenEvent<'a> {
    /// A download is running.
    Downloading {
        /// The source of the file.
        url: &'a str,
        /// Bytes received so far.
        done: u64,
        /// Bytes of the whole file.
        total: u64,
    },
    /// A file is complete and its checksum is right.
    Downloaded {
        /// The source of the file.
        url: &'a str,
        /// Its bytes.
        bytes: u64,
        /// Its path.
        path: &'a Path,
    },
    /// An archive is being unpacked.
    Unpacking {
        /// The archive.
        archive: &'a Path,
    },
    /// A text is being encoded to tokens, which the cache keeps.
    Encoding {
        /// The file or folder.
        text: &'a Path,
        /// The bytes of its files.
        bytes: u64,
    },
    /// The tokens of a text are complete.
    Encoded {
        /// Their number.
        tokens: u64,
        /// The file that has them.
        path: &'a Path,
    },
}

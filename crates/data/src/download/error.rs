use std::{io, path::PathBuf};

use oomph_core::Bytes;

/// Why a file was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// Nobody answered.
    #[error("`{url}` cannot be reached")]
    Unreachable {
        /// What was asked for.
        url: String,
        /// Where the file was to go.
        target: PathBuf,
        /// What the system said.
        source: Box<ureq::Transport>,
    },
    /// The server does not give the file.
    #[error("`{url}` was refused with status {status}")]
    Refused {
        /// What was asked for.
        url: String,
        /// Where the file was to go.
        target: PathBuf,
        /// The HTTP status.
        status: u16,
    },
    /// The connection was cut, and again at further tries.
    #[error("`{url}` was cut off after {} of {}", Bytes::new(*done), Bytes::new(*total))]
    Cut {
        /// What was asked for.
        url: String,
        /// Bytes that are there.
        done: u64,
        /// Bytes of the whole file.
        total: u64,
        /// What ended it the last time.
        source: io::Error,
    },
    /// What the server has is of another size.
    #[error("`{url}` has {found} bytes; expected {expected}")]
    Length {
        /// What was asked for.
        url: String,
        /// Bytes of what the server has.
        found: u64,
        /// Bytes it should have.
        expected: u64,
    },
    /// What was fetched is something else.
    #[error("the SHA-256 of `{url}` is {found}; expected {expected}")]
    Checksum {
        /// What was asked for.
        url: String,
        /// That of what was fetched.
        found: String,
        /// That of the right file.
        expected: String,
    },
    /// A file that is there already is something else.
    #[error("`{}` is not what its home has: its SHA-256 is {found}; expected {expected}", path.display())]
    OtherFile {
        /// The file.
        path: PathBuf,
        /// Its checksum.
        found: String,
        /// That of the right file.
        expected: String,
    },
    /// Another process fetches the same file.
    #[error("another process is fetching `{}`", path.display())]
    Busy {
        /// The file that is being written.
        path: PathBuf,
    },
    /// An archive lacks a file.
    #[error("`{}` holds no `{file}`", archive.display())]
    NotInArchive {
        /// The archive.
        archive: PathBuf,
        /// The path within it.
        file: String,
    },
    /// A file of an archive is larger than the user allows.
    #[error("`{file}` in `{}` is larger than `data.max_file_bytes` of {limit}", archive.display())]
    TooLarge {
        /// The archive.
        archive: PathBuf,
        /// The path within it.
        file: String,
        /// The limit.
        limit: Bytes,
    },
    /// The system refused to read or write.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl DownloadError {
    /// What to do about it, where that can be said.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable { url, target, .. } => Some(format!(
                "is there a network? `{url}` may also be fetched on another machine and put at `{}`",
                target.display()
            )),
            Self::Refused { url, target, .. } => Some(format!(
                "it may have moved: another copy of the file can be put at `{}`, if its checksum is that of `{url}`",
                target.display()
            )),
            Self::Cut { .. } => Some("run it again: it goes on from there".to_owned()),
            Self::Length { .. } | Self::Checksum { .. } => Some(
                "what was fetched is removed; if it happens again, its home has another file now".to_owned(),
            ),
            Self::OtherFile { path, .. } => Some(format!("remove `{}` to fetch it anew", path.display())),
            Self::Busy { .. } => Some("wait for it, then run this again".to_owned()),
            Self::TooLarge { .. } => Some("raise it by `--set data.max_file_bytes=…`".to_owned()),
            Self::NotInArchive { .. } | Self::Io { .. } => None,
        }
    }

    pub(super) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

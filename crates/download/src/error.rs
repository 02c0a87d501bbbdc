use std::{io, path::PathBuf};

use oomph_core::Bytes;

/// Why a file was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The server does not answer.
    #[error("`{url}` cannot be reached")]
    Unreachable {
        /// The requested URL.
        url: String,
        /// The path for the file.
        target: PathBuf,
        /// The error of the connection.
        source: Box<ureq::Transport>,
    },
    /// The server refuses the file.
    #[error("the server answers `{url}` with status {status}")]
    Refused {
        /// The requested URL.
        url: String,
        /// The path for the file.
        target: PathBuf,
        /// The HTTP status.
        status: u16,
    },
    /// The connection broke, in later attempts too.
    #[error("the connection to `{url}` broke after {} of {}", Bytes::new(*done), Bytes::new(*total))]
    Cut {
        /// The requested URL.
        url: String,
        /// Bytes received.
        done: u64,
        /// Bytes of the whole file.
        total: u64,
        /// The error of the last attempt.
        source: io::Error,
    },
    /// The server has a file of another size.
    #[error("`{url}` has {found} bytes; expected {expected}")]
    Length {
        /// The requested URL.
        url: String,
        /// Bytes of the file on the server.
        found: u64,
        /// The expected bytes.
        expected: u64,
    },
    /// The fetched file has another checksum.
    #[error("checksum mismatch: the SHA-256 of `{url}` is {found}; expected {expected}")]
    Checksum {
        /// The requested URL.
        url: String,
        /// The checksum of the fetched file.
        found: String,
        /// The expected checksum.
        expected: String,
    },
    /// An existing file has another checksum.
    #[error("checksum mismatch: the SHA-256 of `{}` is {found}; expected {expected}", path.display())]
    OtherFile {
        /// The file.
        path: PathBuf,
        /// Its checksum.
        found: String,
        /// The expected checksum.
        expected: String,
    },
    /// Another process is fetching the same file.
    #[error("another process is fetching `{}`", path.display())]
    Busy {
        /// The file that it writes.
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
        /// The action, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl DownloadError {
    /// The way out, if there is one to name.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable { url, target, .. } => Some(format!(
                "check the network, or fetch `{url}` on another machine and put it at `{}`",
                target.display()
            )),
            Self::Refused { url, target, .. } => Some(format!(
                "the file may have moved; put a copy with the checksum of `{url}` at `{}`",
                target.display()
            )),
            Self::Cut { .. } => Some("run it again; the download resumes from there".to_owned()),
            Self::Length { .. } | Self::Checksum { .. } => Some(
                "the fetched file was removed; run it again, and if the error stays, the server has another file now".to_owned(),
            ),
            Self::OtherFile { path, .. } => Some(format!("remove `{}` to fetch it again", path.display())),
            Self::Busy { .. } => Some("run it again when the other process is done".to_owned()),
            Self::TooLarge { .. } => Some("raise the limit with `--set data.max_file_bytes=…`".to_owned()),
            Self::NotInArchive { .. } | Self::Io { .. } => None,
        }
    }

    pub(super) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

//! Fetching what has a public home: only where the user asks for it, and only what its checksum says it is.
//!
//! [`download`] writes beside the final name (`.part`), goes on where an earlier try was cut off, and gives the file
//! its name once its SHA-256 is that of the [`Remote`]. So a file under its final name is whole and the right one.

mod error;
mod fetch;
#[cfg(test)]
pub(crate) mod tests;
mod transfer;
mod unpack;

pub use self::{error::DownloadError, fetch::download, unpack::Unpack};

/// A file with a public home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Where it is.
    pub url: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// Its SHA-256, in lower-case hex.
    pub sha256: String,
}

impl Remote {
    /// The file of so many bytes at `url`.
    pub fn new(url: impl Into<String>, bytes: u64, sha256: impl Into<String>) -> Self {
        Self { url: url.into(), bytes, sha256: sha256.into() }
    }
}

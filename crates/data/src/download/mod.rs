//! Downloads of public files, only on request of the user and verified by checksum.
//!
//! [`download`] writes to `<name>.part`, resumes an interrupted download, and renames the file once its SHA-256 is that
//! of the [`Remote`]. A file under its final name is therefore complete and verified.

mod error;
mod fetch;
#[cfg(test)]
pub(crate) mod tests;
mod transfer;
mod unpack;

pub use self::{error::DownloadError, fetch::download, unpack::Unpack};

/// A public file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its URL.
    pub url: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its SHA-256, in lower-case hex.
    pub sha256: String,
}

impl Remote {
    /// The file of `bytes` at `url`.
    pub fn new(url: impl Into<String>, bytes: u64, sha256: impl Into<String>) -> Self {
        Self { url: url.into(), bytes, sha256: sha256.into() }
    }
}

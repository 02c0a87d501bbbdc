//! Downloads of public files, only on request of the user and verified by checksum.
//!
//! [`download()`] writes to `<name>.part`, resumes an interrupted download, and renames the file once its SHA-256 is that
//! of the [`Remote`]. A file under its final name is therefore complete and verified.
//!
//! - [`download()`]: a file, with an [`OpenEvent`] for each piece. [`Unpack`]: some files of an archive.
//!
//! ```no_run
//! use oomph_download::{OpenEvent, Remote, download};
//!
//! let file = Remote::new("https://example.org/images.gz", 9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609");
//! download(&file, "data/images.gz".as_ref(), &|event| {
//!     if let OpenEvent::Downloading { done, total, .. } = event {
//!         eprintln!("{done} of {total} bytes");
//!     }
//! })?;
//! # Ok::<(), oomph_download::DownloadError>(())
//! ```
//!
//! It knows no formats of data, and never prints.

mod error;
mod event;
mod fetch;
#[cfg(test)]
mod tests;
mod transfer;
mod unpack;

#[cfg(test)]
extern crate self as oomph_download;

pub use self::{error::DownloadError, event::OpenEvent, fetch::download, unpack::Unpack};

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

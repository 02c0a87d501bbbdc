use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use oomph_core::{open_file, open_file_with};
use sha2::{Digest, Sha256};

use super::{
    DownloadError, Remote,
    transfer::{TransferError, agent, transfer},
};
use crate::OpenEvent;

/// Attempts in a row without progress before the download fails.
const TRIES: u32 = 3;
/// The pause after the first attempt; it grows with each one.
const PAUSE: Duration = Duration::from_millis(500);

/// Fetches `remote` to `target`. An existing `target` is only verified.
///
/// A download resumes from `<target>.part`, which an earlier call left. The file gets the name `target` only once its
/// length and SHA-256 are right.
///
/// # Errors
/// The file cannot be fetched or written, or its checksum differs.
pub fn download(remote: &Remote, target: &Path, tell: &dyn Fn(&OpenEvent<'_>)) -> Result<(), DownloadError> {
    if target.exists() {
        return verify_existing(remote, target);
    }
    let folder = target.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).map_err(DownloadError::io("create", folder))?;
    let path = part_path(target);
    let mut options = OpenOptions::new();
    let part = open_file_with(options.create(true).truncate(false).read(true).write(true), &path);
    let mut part = PartFile { file: part.map_err(DownloadError::io("write", &path))?, path };
    match part.file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(DownloadError::Busy { path: part.path }),
        Err(TryLockError::Error(error)) => return Err(DownloadError::io("lock", part.path)(error)),
    }
    // Another process may have completed the file since the first check.
    if target.exists() {
        return verify_existing(remote, target);
    }
    part.fill(remote, target, tell).inspect_err(|_| part.remove_empty())?;
    part.verify(remote)?;
    part.file.sync_all().map_err(DownloadError::io("write", &part.path))?;
    fs::rename(&part.path, target).map_err(DownloadError::io("write", target))?;
    tell(&OpenEvent::Downloaded { url: &remote.url, bytes: remote.bytes, path: target });
    Ok(())
}

/// The path of the incomplete file.
fn part_path(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    target.with_file_name(name)
}

/// An incomplete file.
struct PartFile {
    file: File,
    path: PathBuf,
}

impl PartFile {
    fn len(&self) -> Result<u64, DownloadError> {
        Ok(self.file.metadata().map_err(DownloadError::io("read", &self.path))?.len())
    }

    /// Connects until the file is complete.
    fn fill(
        &mut self,
        remote: &Remote,
        target: &Path,
        tell: &dyn Fn(&OpenEvent<'_>),
    ) -> Result<(), DownloadError> {
        let agent = agent();
        let url = || remote.url.clone();
        let tell = |done| tell(&OpenEvent::Downloading { url: &remote.url, done, total: remote.bytes });
        let mut failures = 0;
        loop {
            let have = self.len()?;
            if have == remote.bytes {
                return Ok(());
            }
            if have > remote.bytes {
                self.file.set_len(0).map_err(DownloadError::io("write", &self.path))?;
                continue;
            }
            match transfer(&agent, remote, &mut self.file, have, &tell) {
                Ok(()) => {}
                Err(TransferError::Cut(source)) => {
                    let done = self.len()?;
                    failures = if done > have { 0 } else { failures + 1 };
                    if failures == TRIES {
                        return Err(DownloadError::Cut { url: url(), done, total: remote.bytes, source });
                    }
                    thread::sleep(PAUSE * failures);
                }
                Err(TransferError::Unreachable(source)) => {
                    return Err(DownloadError::Unreachable { url: url(), target: target.into(), source });
                }
                Err(TransferError::Refused(status)) => {
                    return Err(DownloadError::Refused { url: url(), target: target.into(), status });
                }
                Err(TransferError::Length(found)) => {
                    self.remove()?;
                    return Err(DownloadError::Length { url: url(), found, expected: remote.bytes });
                }
                Err(TransferError::Disk(source)) => {
                    return Err(DownloadError::io("write", &self.path)(source));
                }
            }
        }
    }

    /// Verifies the checksum, and removes the file if it differs.
    fn verify(&self, remote: &Remote) -> Result<(), DownloadError> {
        let found = sha256(&self.path)?;
        if found == remote.sha256 {
            return Ok(());
        }
        self.remove()?;
        Err(DownloadError::Checksum { url: remote.url.clone(), found, expected: remote.sha256.clone() })
    }

    /// Removes the file if it is empty.
    fn remove_empty(&self) {
        if self.len().is_ok_and(|len| len == 0) {
            // The download has failed already, and that error is reported.
            let _ = fs::remove_file(&self.path);
        }
    }

    fn remove(&self) -> Result<(), DownloadError> {
        fs::remove_file(&self.path).map_err(DownloadError::io("remove", &self.path))
    }
}

fn verify_existing(remote: &Remote, target: &Path) -> Result<(), DownloadError> {
    let expected = remote.sha256.clone();
    match sha256(target)? {
        found if found == expected => Ok(()),
        found => Err(DownloadError::OtherFile { path: target.to_owned(), found, expected }),
    }
}

/// The SHA-256 of a file, in hex.
fn sha256(path: &Path) -> Result<String, DownloadError> {
    let mut hash = Sha256::new();
    let hashed = open_file(path).and_then(|mut file| io::copy(&mut file, &mut hash));
    hashed.map_err(DownloadError::io("read", path))?;
    Ok(format!("{:x}", hash.finalize()))
}

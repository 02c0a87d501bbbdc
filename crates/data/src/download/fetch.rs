use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use sha2::{Digest, Sha256};

use super::{
    DownloadError, Remote,
    transfer::{Ended, agent, transfer},
};
use crate::OpenEvent;

/// How often in a row a connection may bring nothing before it is given up.
const TRIES: u32 = 3;
/// The time between two of them; longer each time.
const PAUSE: Duration = Duration::from_millis(500);

/// Fetches `remote` to `target`, or does nothing where it is there already and is the right file.
///
/// What an earlier call left in `<target>.part` is kept, and only the rest fetched. Nothing has the name of `target`
/// before its length and SHA-256 are right.
///
/// # Errors
/// Where the file cannot be fetched, is another one, or cannot be written.
pub fn download(remote: &Remote, target: &Path, tell: &dyn Fn(&OpenEvent<'_>)) -> Result<(), DownloadError> {
    if target.exists() {
        return verify_existing(remote, target);
    }
    let folder = target.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).map_err(DownloadError::io("create", folder))?;
    let path = part_path(target);
    let part = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
    let mut part = Part { file: part.map_err(DownloadError::io("write", &path))?, path };
    match part.file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(DownloadError::Busy { path: part.path }),
        Err(TryLockError::Error(error)) => return Err(DownloadError::io("lock", part.path)(error)),
    }
    // Another process may have come to its end since the first look.
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

/// Where a file is written while it is not whole.
fn part_path(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    target.with_file_name(name)
}

/// A file that is not whole yet.
struct Part {
    file: File,
    path: PathBuf,
}

impl Part {
    fn len(&self) -> Result<u64, DownloadError> {
        Ok(self.file.metadata().map_err(DownloadError::io("read", &self.path))?.len())
    }

    /// Connects until all bytes are there.
    fn fill(
        &mut self,
        remote: &Remote,
        target: &Path,
        tell: &dyn Fn(&OpenEvent<'_>),
    ) -> Result<(), DownloadError> {
        let agent = agent();
        let url = || remote.url.clone();
        let tell = |done| tell(&OpenEvent::Downloading { url: &remote.url, done, total: remote.bytes });
        let mut without_success = 0;
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
                Err(Ended::Cut(source)) => {
                    let done = self.len()?;
                    without_success = if done > have { 0 } else { without_success + 1 };
                    if without_success == TRIES {
                        return Err(DownloadError::Cut { url: url(), done, total: remote.bytes, source });
                    }
                    thread::sleep(PAUSE * without_success);
                }
                Err(Ended::Unreachable(source)) => {
                    return Err(DownloadError::Unreachable { url: url(), target: target.into(), source });
                }
                Err(Ended::Refused(status)) => {
                    return Err(DownloadError::Refused { url: url(), target: target.into(), status });
                }
                Err(Ended::Length(found)) => {
                    self.remove()?;
                    return Err(DownloadError::Length { url: url(), found, expected: remote.bytes });
                }
                Err(Ended::Disk(source)) => return Err(DownloadError::io("write", &self.path)(source)),
            }
        }
    }

    /// Removes it where it is not what it should be.
    fn verify(&self, remote: &Remote) -> Result<(), DownloadError> {
        let found = sha256(&self.path)?;
        if found == remote.sha256 {
            return Ok(());
        }
        self.remove()?;
        Err(DownloadError::Checksum { url: remote.url.clone(), found, expected: remote.sha256.clone() })
    }

    /// Where nothing came, nothing is left.
    fn remove_empty(&self) {
        if self.len().is_ok_and(|len| len == 0) {
            // The error that is told is why nothing came.
            let _ = fs::remove_file(&self.path);
        }
    }

    fn remove(&self) -> Result<(), DownloadError> {
        fs::remove_file(&self.path).map_err(DownloadError::io("remove", &self.path))
    }
}

fn verify_existing(remote: &Remote, target: &Path) -> Result<(), DownloadError> {
    match sha256(target)? {
        found if found == remote.sha256 => Ok(()),
        found => {
            let expected = remote.sha256.clone();
            Err(DownloadError::OtherFile { path: target.to_owned(), found, expected })
        }
    }
}

/// The SHA-256 of a file, in hex.
fn sha256(path: &Path) -> Result<String, DownloadError> {
    let refused = |error| DownloadError::io("read", path)(error);
    let mut file = File::open(path).map_err(refused)?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(format!("{:x}", hash.finalize())),
            Ok(count) => hash.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(refused(error)),
        }
    }
}

use std::{
    ffi::OsString,
    fs,
    hash::{BuildHasher, RandomState},
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime},
};

use oomph_core::system::{FileIdentity, rename_new, set_link};

use crate::error::{StudyError, io_error};

/// How long Optuna lets a lock stand before it takes the lock over.
pub(crate) const GRACE: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A queue of workers that each hold the lock for milliseconds never takes as long.
const PATIENCE: Duration = Duration::from_secs(600);

/// The lock of a journal, which Optuna's `JournalFileSymlinkLock` and `JournalFileOpenLock` respect, and which respects theirs.
///
/// It is a symbolic link `<log>.lock` to the journal; on Windows a file, as `JournalFileOpenLock` makes. Whoever creates it holds the lock. Waiting processes try again
/// after 1 ms, then twice as long each time, up to 1 s.
///
/// A holder that was killed leaves the link. Others take the lock over once neither the link nor the journal has changed for
/// 30 s. A holder that was only stopped, by SIGSTOP for example, learns nothing of it. So a holder looks before it writes
/// ([`Guard::is_held`]), and reads its records back afterwards.
///
/// What stays possible: a process that stops between its look and its write, for over 30 s. Then its lines land behind those
/// of others, each line whole. It notices when it reads them back.
#[derive(Clone, Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    log: PathBuf,
    grace: Duration,
}

/// A link or file that is there, distinct from one of the same name that was created later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    file: FileIdentity,
    /// Of the link itself. Nothing changes it after its creation.
    modified: SystemTime,
}

impl Identity {
    fn at(path: &Path) -> Option<Self> {
        let modified = fs::symlink_metadata(path).and_then(|found| found.modified()).ok()?;
        Some(Self { file: FileIdentity::at_link(path).ok()?, modified })
    }
}

/// The lock while it is held. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct Guard {
    path: PathBuf,
    identity: Identity,
}

/// A lock of another process, as a waiting one sees it. Once it changes, the wait for its end starts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Watched {
    lock: Identity,
    /// When the journal was last changed: a holder that writes is alive.
    log: Option<SystemTime>,
}

impl Lock {
    /// The lock of a journal. `grace` is [`GRACE`], except in tests.
    pub(crate) fn new(log: &Path, grace: Duration) -> Self {
        Self { path: beside(log, ".lock"), log: log.to_owned(), grace }
    }

    /// Waits for the lock and takes it.
    ///
    /// # Errors
    /// The link cannot be created, or others hold the lock for ten minutes.
    pub(crate) fn acquire(&self) -> Result<Guard, StudyError> {
        // Optuna's workers look at the journal through the link. A link that leads nowhere makes them wait for ever, so
        // it must not depend on anybody's working directory.
        let target = fs::canonicalize(&self.log).map_err(io_error("lock", &self.log))?;
        let start = Instant::now();
        let mut watched: Option<(Watched, Instant)> = None;
        let mut pause = FIRST_PAUSE;
        loop {
            let before = Instant::now();
            match set_link(&target, &self.path) {
                Ok(()) => {
                    if let Some(identity) = self.created(before) {
                        return Ok(Guard { path: self.path.clone(), identity });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io_error("lock", &self.path)(error)),
            }
            if start.elapsed() > PATIENCE {
                return Err(StudyError::LockBusy { path: self.path.clone(), seconds: PATIENCE.as_secs() });
            }
            // Released a moment ago.
            let Some(found) = self.watch() else { continue };
            match watched {
                Some((known, since)) if known == found => {
                    if since.elapsed() > self.grace && remove(&self.path, found.lock) {
                        watched = None;
                        pause = FIRST_PAUSE;
                        continue;
                    }
                }
                _ => watched = Some((found, Instant::now())),
            }
            // Workers that start together would ask together for ever.
            thread::sleep(pause.mul_f64(0.5 + random() as f64 / u64::MAX as f64 / 2.0));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// The link that this process has just created. `None` if the process was stopped for so long in between that the link
    /// may be another's by now.
    fn created(&self, before: Instant) -> Option<Identity> {
        let identity = Identity::at(&self.path)?;
        (before.elapsed() < self.grace / 2).then_some(identity)
    }

    fn watch(&self) -> Option<Watched> {
        let lock = Identity::at(&self.path)?;
        let log = fs::metadata(&self.log).and_then(|log| log.modified()).ok();
        Some(Watched { lock, log })
    }
}

impl Guard {
    /// Whether the lock is still this process's. The answer holds for as long as the process is not stopped for 30 s.
    pub(crate) fn is_held(&self) -> bool {
        Identity::at(&self.path) == Some(self.identity)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // What cannot be released is taken over by others after 30 s.
        remove(&self.path, self.identity);
    }
}

/// Removes a lock as Optuna does: renamed first, since only one of several processes can rename it.
fn remove(path: &Path, identity: Identity) -> bool {
    if Identity::at(path) != Some(identity) {
        return false;
    }
    let aside = beside(path, &format!("{}.rename", unique_name()));
    if fs::rename(path, &aside).is_err() {
        return false;
    }
    let is_right = Identity::at(&aside) == Some(identity);
    if !is_right && rename_new(&aside, path).is_ok() {
        // Another process was faster, and its lock is back in its place.
        return false;
    }
    // A name that stays is litter, and no lock.
    let _ = fs::remove_file(&aside);
    is_right
}

/// The path with something behind its name.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

/// A name that nobody else makes, in the form of a random UUID.
pub(crate) fn unique_name() -> String {
    let [high, low] = [random(), random()];
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff
    )
}

/// A word that differs from call to call and from process to process. No result depends on it.
fn random() -> u64 {
    RandomState::new().hash_one(Instant::now())
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::unix::fs::symlink};

    use super::*;

    const SHORT: Duration = Duration::from_millis(200);

    fn journal() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("study.log");
        fs::write(&log, "").expect("a journal");
        (folder, log)
    }

    fn entries(log: &Path) -> usize {
        fs::read_dir(log.parent().expect("a folder")).expect("a folder").count()
    }

    #[test]
    fn a_released_lock_leaves_nothing() {
        let (_folder, log) = journal();
        let lock = Lock::new(&log, GRACE);
        let guard = lock.acquire().expect("the lock");
        assert!(guard.is_held());
        assert_eq!(
            fs::canonicalize(beside(&log, ".lock")).expect("a link"),
            fs::canonicalize(&log).expect("a file")
        );
        drop(guard);
        assert_eq!(entries(&log), 1);
        lock.acquire().expect("the lock again");
    }

    #[test]
    fn a_lock_left_behind_is_taken_over_after_its_time() {
        let (_folder, log) = journal();
        for left in ["link", "relative link", "file"] {
            match left {
                "link" => symlink(&log, beside(&log, ".lock")).expect("a link"),
                // As Optuna makes it of a relative path; it leads nowhere.
                "relative link" => symlink("runs/study.log", beside(&log, ".lock")).expect("a link"),
                _ => drop(File::create_new(beside(&log, ".lock")).expect("a file")),
            }
            let start = Instant::now();
            let guard = Lock::new(&log, SHORT).acquire().expect("the lock");
            assert!(start.elapsed() >= SHORT, "{left}");
            assert!(guard.is_held());
            drop(guard);
            assert_eq!(entries(&log), 1, "{left}");
        }
    }

    #[test]
    fn a_journal_that_changes_keeps_its_lock() {
        let (_folder, log) = journal();
        let guard = Lock::new(&log, GRACE).acquire().expect("the lock");
        let waiting = {
            let log = log.clone();
            thread::spawn(move || Lock::new(&log, SHORT).acquire().map(|guard| guard.is_held()))
        };
        for round in 0..20 {
            thread::sleep(SHORT / 4);
            fs::write(&log, format!("{round}")).expect("written");
            assert!(guard.is_held());
        }
        assert!(!waiting.is_finished());
        drop(guard);
        assert!(waiting.join().expect("no panic").expect("the lock"));
    }

    #[test]
    fn a_holder_whose_lock_was_taken_over_notices_and_leaves_the_new_one_alone() {
        let (_folder, log) = journal();
        let stopped = Lock::new(&log, GRACE).acquire().expect("the lock");
        let next = Lock::new(&log, SHORT).acquire().expect("the lock, taken over");
        assert!(!stopped.is_held());
        drop(stopped);
        assert!(next.is_held());
    }

    #[test]
    fn a_lock_that_is_not_the_judged_one_is_put_back() {
        let (_folder, log) = journal();
        let guard = Lock::new(&log, GRACE).acquire().expect("the lock");
        let other = Identity { modified: guard.identity.modified + SHORT, ..guard.identity };
        assert!(!remove(&guard.path, other));
        assert!(guard.is_held());
    }

    #[test]
    fn names_are_unique_and_formed_as_uuids() {
        let names: std::collections::BTreeSet<_> = (0..1000).map(|_| unique_name()).collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| {
            name.len() == 36 && name.as_bytes()[14] == b'4' && "89ab".contains(name.as_bytes()[19] as char)
        }));
    }
}

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Seek, Write},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use oomph_core::{open_file, open_file_with, read_text, system::FileIdentity};
use serde::Serialize;

use super::{
    RunError,
    log_lines::{Line, LineState, LogLines},
};
use crate::state::{
    About, Checkpoint, CheckpointStore, SavedCheckpoint, StateError, TrainState, sync_entry, write_file,
};

const LOCK: &str = "lock";
pub(super) const METRICS: &str = "metrics.jsonl";
pub(super) const CONFIG: &str = "config.toml";

/// The directory of a run, locked by this process until it is dropped.
///
/// It holds `config.toml` (resolved), `environment.json`, `metrics.jsonl` and `checkpoints/`.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    metrics: File,
    /// The lock. The system releases it when the process ends. It also tells this directory from another at its path.
    lock: File,
}

impl RunDirectory {
    /// Locks `path` for a new run, and makes the directory if it is missing.
    ///
    /// # Errors
    /// Where it holds a run, or another process holds it.
    pub fn create(path: &Path) -> Result<Self, RunError> {
        let run = Self::resume(path)?;
        if run.holds_run() { Err(RunError::Exists { path: path.to_owned() }) } else { Ok(run) }
    }

    /// Locks `path` to continue its run, or for a new run if it has none.
    ///
    /// # Errors
    /// Where another process holds it, or it is a checkpoint.
    pub fn resume(path: &Path) -> Result<Self, RunError> {
        if Checkpoint::is_at(path) {
            return Err(RunError::IsCheckpoint { path: path.to_owned() });
        }
        create_directory(path)?;
        let lock = lock(path)?;
        let file = path.join(METRICS);
        let metrics = open_file_with(OpenOptions::new().create(true).read(true).append(true), &file)
            .map_err(StateError::io("open", &file))?;
        cut_lost_lines(&metrics).map_err(StateError::io("read", &file))?;
        let run = Self { path: path.to_owned(), metrics, lock };
        // Between opening and locking, another process may have replaced the directory.
        run.check()?;
        Ok(run)
    }

    /// Locks `runs/<name>` for a new run, or behind the highest number of `runs/<name>-2` and so on: a gap that a removed
    /// directory left stays, so that the newest run has the highest number.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn next(name: &str) -> Result<Self, RunError> {
        let numbers = numbered(name).map(|(number, _)| number);
        for number in numbers.max().unwrap_or(1).. {
            match Self::create(&path_of(name, number)) {
                Err(RunError::Exists { .. } | RunError::InUse { .. }) => {}
                result => return result,
            }
        }
        // The numbers are endless.
        Err(RunError::Exists { path: Self::first(name) })
    }

    /// `runs/<name>`, where the first run of a name goes.
    pub fn first(name: &str) -> PathBuf {
        path_of(name, 1)
    }

    /// The newest of `runs/<name>`, `runs/<name>-2` … with a checkpoint. Without checkpoints the newest directory, or else
    /// `runs/<name>`.
    pub fn last(name: &str) -> PathBuf {
        let runs = numbered(name);
        let newest =
            runs.map(|(number, path)| (path.join(CheckpointStore::DIRECTORY).is_dir(), number, path));
        newest.max().map_or_else(|| Self::first(name), |(.., path)| path)
    }

    /// Whether a run has begun here.
    pub fn holds_run(&self) -> bool {
        Self::is_run(&self.path)
    }

    /// Whether a run has begun in the directory `path`.
    pub fn is_run(path: &Path) -> bool {
        // A checkpoint has a configuration too.
        path.join(CONFIG).is_file() && !Checkpoint::is_at(path)
    }

    /// Whether a process trains in the directory `path`.
    pub fn is_held(path: &Path) -> bool {
        let lock = open_file(&path.join(LOCK));
        // A shared lock succeeds unless a run holds the exclusive one. Closing the file releases it.
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The checkpoints.
    pub fn checkpoints(&self) -> CheckpointStore {
        CheckpointStore::at(self.path.join(CheckpointStore::DIRECTORY))
    }

    /// Checks that the directory at the path is still the one that this process locked.
    ///
    /// # Errors
    /// [`RunError::Removed`] where it was removed, moved or replaced.
    pub fn check(&self) -> Result<(), RunError> {
        let file = self.path.join(LOCK);
        let ours = FileIdentity::of(&self.lock).map_err(StateError::io("read", &file))?;
        let path = || self.path.clone();
        match FileIdentity::at(&file) {
            Ok(there) if there == ours => Ok(()),
            Ok(_) => Err(RunError::Removed { path: path(), is_replaced: true }),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Err(RunError::Removed { path: path(), is_replaced: false })
            }
            // A file system that fails for a moment does not end a training between two saves.
            Err(_) => Ok(()),
        }
    }

    /// Saves a checkpoint, as [`CheckpointStore::save`].
    ///
    /// # Errors
    /// Where the system refuses, or the directory is no longer [the one that was locked](Self::check).
    pub fn save(
        &self,
        state: TrainState,
        about: About<'_>,
        keep_last: usize,
    ) -> Result<SavedCheckpoint, RunError> {
        self.check()?;
        // After a loss of power the log has everything up to the newest checkpoint.
        self.metrics.sync_data().map_err(StateError::io("flush", self.path.join(METRICS)))?;
        let saved = self.checkpoints().save(state, about, keep_last);
        // A directory that goes in the middle of a save is the cause of its error.
        saved.map_err(|error| self.check().err().unwrap_or_else(|| error.into()))
    }

    /// Writes the resolved configuration and the environment.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn describe(&self, config: &str, environment: &serde_json::Value) -> Result<(), RunError> {
        let environment = format!("{environment:#}\n");
        write_file(&self.path.join("environment.json"), environment.as_bytes())?;
        // The configuration is last, since it marks the directory as taken.
        Ok(write_file(&self.path.join(CONFIG), config.as_bytes())?)
    }

    /// Appends a line to `metrics.jsonl`.
    ///
    /// # Errors
    /// Where the system refuses, or the directory is no longer [the one that was locked](Self::check).
    pub fn log(&self, event: &impl Serialize) -> Result<(), RunError> {
        self.check()?;
        let path = self.path.join(METRICS);
        let append = || {
            let mut line = serde_json::to_vec(event)?;
            line.push(b'\n');
            (&self.metrics).write_all(&line)
        };
        Ok(append().map_err(StateError::io("write", path))?)
    }
}

/// The folder of all runs without a directory of their own, from where the command is run.
const RUNS: &str = "runs";

/// `runs/<name>`, or `runs/<name>-2` and so on.
fn path_of(name: &str, number: usize) -> PathBuf {
    let name = if number > 1 { format!("{name}-{number}") } else { name.to_owned() };
    Path::new(RUNS).join(name)
}

/// The directories `runs/<name>`, `runs/<name>-2` and so on, with their numbers.
fn numbered(name: &str) -> impl Iterator<Item = (usize, PathBuf)> {
    let number = move |entry: &str| match entry.strip_prefix(name)? {
        "" => Some(1),
        rest => {
            rest.strip_prefix('-')?.parse::<usize>().ok().filter(|number| (2..usize::MAX).contains(number))
        }
    };
    let entries = fs::read_dir(RUNS).into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let number = number(entry.file_name().to_str()?)?;
        // `-007` and `-+7` are other names.
        let path = path_of(name, number);
        (path.file_name() == Some(&entry.file_name()) && path.is_dir()).then_some((number, path))
    })
}

/// Creates a directory with those above it, and flushes their names to the disk.
fn create_directory(path: &Path) -> Result<(), StateError> {
    let missing: Vec<_> = path.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(path).map_err(StateError::io("create", path))?;
    // An earlier process may have created the last one without flushing its name.
    let flushed = missing.into_iter().chain([path]).filter(|path| path.file_name().is_some());
    for path in flushed {
        match sync_entry(path) {
            // The folder above belongs to somebody else, who keeps it.
            Err(StateError::Io { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {}
            result => result?,
        }
    }
    Ok(())
}

/// Cuts off what a kill, a full disk or a loss of power left at the end: an incomplete line, or lines that are
/// [lost](LineState::Lost).
fn cut_lost_lines(metrics: &File) -> io::Result<()> {
    let mut lines = LogLines::new(metrics);
    let mut cut = None;
    while let Some(Line { start, state, .. }) = lines.next()? {
        cut = match state {
            LineState::Torn | LineState::Lost => cut.or(Some(start)),
            LineState::Whole | LineState::TooLong => None,
        };
    }
    cut.map_or(Ok(()), |cut| metrics.set_len(cut))
}

/// Locks a file, with retries: [`RunDirectory::is_held`] takes a shared lock for a moment.
fn try_lock(file: &File) -> Result<(), TryLockError> {
    const TRIES: usize = 5;
    for _ in 1..TRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(10)),
            result => return result,
        }
    }
    file.try_lock()
}

fn lock(directory: &Path) -> Result<File, RunError> {
    let path = directory.join(LOCK);
    let mut options = OpenOptions::new();
    let mut file = open_file_with(options.create(true).truncate(false).read(true).write(true), &path)
        .map_err(StateError::io("open", &path))?;
    match try_lock(&file) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let holder = read_text(&path).ok().filter(|text| !text.is_empty());
            let holder = holder.map_or("another process".into(), |id| format!("process {}", id.trim()));
            return Err(RunError::InUse { path: directory.to_owned(), holder });
        }
        Err(TryLockError::Error(error)) => return Err(StateError::io("lock", &path)(error).into()),
    }
    let mut sign = || {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    sign().map_err(StateError::io("write", &path))?;
    Ok(file)
}

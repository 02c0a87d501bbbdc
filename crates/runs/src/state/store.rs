use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    About, Checkpoint, StateError, TrainState,
    checkpoint::{DIRECTORY, STATE},
    disk::{replace_link, sync_directory},
};

const LATEST: &str = "latest";
const BEST: &str = "best";
const PREFIX: &str = "step-";
/// Prefixes of directories that are being written or removed. The next save clears the leftovers of a crash.
const WRITING: &str = ".writing-";
const REMOVING: &str = ".removing-";

/// The checkpoints of a run, in its directory `checkpoints`: `step-00000120` …, and the links `latest` and `best`.
#[derive(Clone, Debug)]
pub struct CheckpointStore {
    directory: PathBuf,
}

/// One of the checkpoints of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The newest readable checkpoint.
    Latest,
    /// The checkpoint of the best evaluation.
    Best,
    /// The checkpoint after this many optimizer steps.
    Step(usize),
}

/// A checkpoint that was found.
#[derive(Debug)]
pub struct FoundCheckpoint {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The errors of newer checkpoints, which were skipped.
    pub skipped: Vec<StateError>,
}

impl FoundCheckpoint {
    /// A warning for each skipped checkpoint.
    pub fn warnings(&self) -> Vec<String> {
        self.skipped.iter().map(|error| format!("skipped: {error}")).collect()
    }
}

impl Checkpoint {
    /// Finds the checkpoint at `path`: a checkpoint directory, or the newest readable checkpoint of a run directory.
    ///
    /// # Errors
    /// Where there is no checkpoint, or it is damaged.
    pub fn find(path: &Path) -> Result<FoundCheckpoint, StateError> {
        if path.join(STATE).is_file() {
            return Ok(FoundCheckpoint { checkpoint: Self::open(path)?, skipped: Vec::new() });
        }
        let store = path.join(DIRECTORY);
        let found = if store.is_dir() { CheckpointStore::at(store).newest()? } else { None };
        found.ok_or_else(|| StateError::NotACheckpoint { path: path.to_owned() })
    }
}

impl CheckpointStore {
    /// The directory's name in a run directory.
    pub const DIRECTORY: &str = DIRECTORY;

    /// The store in `directory`. The first save makes the directory.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Saves a checkpoint, moves the link `latest` (and with `best` the link `best`), and removes all checkpoints but the
    /// last `keep_last` and the best.
    ///
    /// # Errors
    /// Where the disk is full or the system refuses. The earlier checkpoints stay untouched then.
    pub fn save(
        &self,
        state: &TrainState,
        about: About<'_>,
        best: bool,
        keep_last: usize,
    ) -> Result<PathBuf, StateError> {
        fs::create_dir_all(&self.directory).map_err(StateError::io("create", &self.directory))?;
        self.clear_leftovers()?;
        let name = self.free_name(state.progress.step);
        let (writing, path) = (self.directory.join(format!("{WRITING}{name}")), self.directory.join(&name));
        if let Err(error) = Checkpoint::write(&writing, state, about) {
            // The disk may be full, so the half-written checkpoint is removed. The first error is reported.
            let _ = fs::remove_dir_all(&writing);
            return Err(error);
        }
        fs::rename(&writing, &path).map_err(StateError::io("write", &path))?;
        sync_directory(&self.directory)?;
        replace_link(&self.directory.join(LATEST), &name)?;
        if best {
            replace_link(&self.directory.join(BEST), &name)?;
        }
        self.prune(keep_last)?;
        Ok(path)
    }

    /// Opens one of the checkpoints.
    ///
    /// # Errors
    /// Where it is absent or damaged.
    pub fn get(&self, which: Which) -> Result<FoundCheckpoint, StateError> {
        let directory = || self.directory.clone();
        let name = match which {
            Which::Latest => {
                let found = self.newest()?;
                let run = self.directory.parent().unwrap_or(&self.directory);
                return found.ok_or_else(|| StateError::NotACheckpoint { path: run.to_owned() });
            }
            Which::Best => self.linked(BEST).ok_or_else(|| StateError::NoBest { directory: directory() })?,
            Which::Step(step) => {
                let names = self.names()?;
                let of_step = |name: &&String| order(name).is_some_and(|(found, _)| found == step);
                let mut known: Vec<_> = names.iter().filter_map(|name| Some(order(name)?.0)).collect();
                known.dedup();
                let newest = names.iter().rfind(of_step).cloned();
                newest.ok_or_else(|| StateError::NoStep { directory: directory(), step, known })?
            }
        };
        Ok(FoundCheckpoint { checkpoint: Checkpoint::open(&self.directory.join(name))?, skipped: Vec::new() })
    }

    /// Opens the newest readable checkpoint: `latest`, or an earlier one where `latest` is damaged. `None` without
    /// checkpoints.
    ///
    /// # Errors
    /// Where there are checkpoints, but none is readable.
    pub fn newest(&self) -> Result<Option<FoundCheckpoint>, StateError> {
        let mut names = self.names()?;
        names.reverse();
        if let Some(latest) = self.linked(LATEST) {
            names.sort_by_key(|name| *name != latest);
        }
        let mut skipped = Vec::new();
        for name in &names {
            match Checkpoint::open(&self.directory.join(name)) {
                Ok(checkpoint) => return Ok(Some(FoundCheckpoint { checkpoint, skipped })),
                Err(error) => skipped.push(error),
            }
        }
        match skipped.into_iter().next() {
            None => Ok(None),
            Some(newest) => Err(StateError::NoneReadable {
                directory: self.directory.clone(),
                count: names.len(),
                newest: Box::new(newest),
            }),
        }
    }

    /// Names of complete checkpoints, oldest first. A complete checkpoint has its final name.
    fn names(&self) -> Result<Vec<String>, StateError> {
        if !self.directory.is_dir() {
            return Ok(Vec::new());
        }
        let mut names = self.entries()?;
        names.retain(|name| order(name).is_some());
        names.sort_by_key(|name| order(name));
        Ok(names)
    }

    fn entries(&self) -> Result<Vec<String>, StateError> {
        let refused = || StateError::io("read", &self.directory);
        fs::read_dir(&self.directory)
            .map_err(refused())?
            .map(|entry| Ok(entry.map_err(refused())?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    /// The name that a link points to.
    fn linked(&self, link: &str) -> Option<String> {
        let target = fs::read_link(self.directory.join(link)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// `step-00000120`, or `step-00000120.2` … where a run that was resumed from earlier saves the step again.
    fn free_name(&self, step: usize) -> String {
        let first = format!("{PREFIX}{step:08}");
        let later = (2usize..).map(|number| format!("{first}.{number}"));
        let mut names = std::iter::once(first.clone()).chain(later);
        // The iterator is endless, so one of the names is free.
        names.find(|name| !self.directory.join(name).exists()).unwrap_or(first)
    }

    fn prune(&self, keep_last: usize) -> Result<(), StateError> {
        let kept = [self.linked(LATEST), self.linked(BEST)];
        let mut names = self.names()?;
        // Names order checkpoints of the same time.
        names.sort_by_key(|name| {
            let written = self.directory.join(name).metadata().and_then(|data| data.modified());
            (written.ok(), order(name))
        });
        let removable = names.len().saturating_sub(keep_last);
        for name in names.into_iter().take(removable) {
            if !kept.iter().flatten().any(|kept| *kept == name) {
                self.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Renames before removing, so a crash leaves no half of a checkpoint under a final name.
    fn remove(&self, name: &str) -> Result<(), StateError> {
        let (path, removing) = (self.directory.join(name), self.directory.join(format!("{REMOVING}{name}")));
        fs::rename(&path, &removing).map_err(StateError::io("remove", &path))?;
        fs::remove_dir_all(&removing).map_err(StateError::io("remove", &removing))
    }

    /// Removes the half-written and half-removed checkpoints of a crash.
    pub fn clear_leftovers(&self) -> Result<(), StateError> {
        if !self.directory.is_dir() {
            return Ok(());
        }
        for name in self.entries()? {
            if name.starts_with(WRITING) || name.starts_with(REMOVING) {
                let path = self.directory.join(name);
                fs::remove_dir_all(&path).map_err(StateError::io("remove", &path))?;
            }
        }
        Ok(())
    }
}

/// The step and the number in a checkpoint's name.
fn order(name: &str) -> Option<(usize, usize)> {
    let rest = name.strip_prefix(PREFIX)?;
    match rest.split_once('.') {
        Some((step, number)) => Some((step.parse().ok()?, number.parse().ok()?)),
        None => Some((rest.parse().ok()?, 1)),
    }
}

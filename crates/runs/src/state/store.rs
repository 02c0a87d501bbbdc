use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    str::FromStr,
};

use oomph_core::system::link_target;

use super::{
    About, Checkpoint, StateError, TrainState,
    checkpoint::{DIRECTORY, Parts, STATE},
    cleaning::{WRITING, clear_leftovers, remove},
    disk::{replace_link, sync_directory, sync_entry},
    listing::{BEST, LATEST, Listed, Listing, is_name, names_of},
};
use crate::RunDirectory;

/// How often a search starts again because a training removed the checkpoint that it was about to open.
const MOST_SEARCHES: usize = 20;

/// The checkpoints of a run, in its directory `checkpoints`: `step-00000120` …, and the links `latest` and `best`.
///
/// The manifests of the checkpoints say which is the latest and which the best. The links are for people and other
/// programs. They follow at each save, and where a training starts.
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

impl FromStr for Which {
    type Err = NotAChoice;

    fn from_str(text: &str) -> Result<Self, NotAChoice> {
        match text {
            LATEST => Ok(Self::Latest),
            BEST => Ok(Self::Best),
            step => step.parse().map(Self::Step).map_err(|_| NotAChoice),
        }
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => f.pad(LATEST),
            Self::Best => f.pad(BEST),
            Self::Step(step) => step.fmt(f),
        }
    }
}

/// A text that names none of a run's checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `latest`, `best` or a step")]
pub struct NotAChoice;

/// The store and the checkpoint of a path such as `runs/resnet/best` or `runs/resnet/400`.
fn within_run(path: &Path) -> Option<(CheckpointStore, Which)> {
    let which = path.file_name()?.to_str()?.parse().ok()?;
    let store = path.parent()?.join(DIRECTORY);
    (store.is_dir() && !path.exists()).then(|| (CheckpointStore::at(store), which))
}

/// A checkpoint that was found.
#[derive(Debug)]
pub struct FoundCheckpoint {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The errors of newer checkpoints, which were skipped.
    pub skipped: Vec<StateError>,
}

/// A checkpoint that was saved.
#[derive(Debug)]
pub struct SavedCheckpoint {
    /// Its directory.
    pub path: PathBuf,
    /// What the system refused after the checkpoint was complete, such as the removal of an old one.
    pub warnings: Vec<String>,
}

impl FoundCheckpoint {
    /// A warning for each skipped checkpoint.
    pub fn warnings(&self) -> Vec<String> {
        self.skipped.iter().map(|error| format!("skipped: {error}")).collect()
    }
}

impl Checkpoint {
    /// Whether the directory `path` is a checkpoint, whole or damaged: it has a manifest, or its place and name are those of a
    /// checkpoint. Nothing else may be written there.
    pub fn is_at(path: &Path) -> bool {
        let named = |path: &Path| {
            let is_in_store = path.parent().is_some_and(|store| store.ends_with(DIRECTORY));
            is_in_store && path.file_name().is_some_and(|name| is_name(&name.to_string_lossy()))
        };
        // A link such as `latest` leads to a checkpoint.
        path.join(STATE).exists() || path.canonicalize().is_ok_and(|path| path.is_dir() && named(&path))
    }

    /// Whether `path` is meant for [`find`](Self::find): it is a run directory or a checkpoint, or names one of a run directory.
    pub fn is_named(path: &Path) -> bool {
        Self::is_at(path) || RunDirectory::is_run(path) || within_run(path).is_some()
    }

    /// Finds the checkpoint at `path`: a checkpoint directory, or the newest readable checkpoint of a run directory. Below a
    /// run directory, `best`, `latest` and the number of a step name one of its checkpoints.
    ///
    /// A link such as `latest` is resolved once: all files are those of one checkpoint, even if a training moves the link.
    ///
    /// # Errors
    /// Where there is no checkpoint, or it is damaged.
    pub fn find(path: &Path) -> Result<FoundCheckpoint, StateError> {
        Self::find_for(path, Parts::All)
    }

    /// [Finds](Self::find) the checkpoint at `path` to read its [weights](Self::weights). Only those are verified, and
    /// each file is read once: the optimizer's state is twice as large with Adam.
    ///
    /// # Errors
    /// Where there is no checkpoint, or its weights are damaged.
    pub fn find_weights(path: &Path) -> Result<FoundCheckpoint, StateError> {
        Self::find_for(path, Parts::Weights)
    }

    fn find_for(path: &Path, parts: Parts) -> Result<FoundCheckpoint, StateError> {
        let mut place = followed(path);
        let mut found = Self::open_for(&place, parts);
        for _ in 1..MOST_SEARCHES {
            let now = followed(path);
            if found.is_ok() || now == place {
                break;
            }
            // A training moved the link, and removed the checkpoint that it pointed to.
            found = Self::open_for(&now, parts);
            place = now;
        }
        match found {
            Ok(checkpoint) => return Ok(FoundCheckpoint { checkpoint, skipped: Vec::new() }),
            Err(error) if place.join(STATE).exists() => return Err(error),
            Err(_) => {}
        }
        if let Some((store, which)) = within_run(path) {
            return store.get_for(which, parts);
        }
        let store = path.join(DIRECTORY);
        let found = if store.is_dir() { CheckpointStore::at(store).newest_for(parts)? } else { None };
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

    /// Saves a checkpoint, moves the links `best` and `latest`, and removes all checkpoints but the last `keep_last` and the
    /// best. Each part of the state is dropped as soon as it is encoded.
    ///
    /// # Errors
    /// Where the disk is full or the system refuses. The earlier checkpoints stay untouched then. Once the checkpoint is
    /// complete, nothing is an error any more.
    pub fn save(
        &self,
        state: TrainState,
        about: About<'_>,
        keep_last: usize,
    ) -> Result<SavedCheckpoint, StateError> {
        // The run directory itself is not made again: if it is gone, the checkpoint must not begin another.
        match fs::create_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => {
                made.map_err(StateError::io("create", &self.directory))?;
                // What is flushed into a directory is lost with the directory's own name.
                sync_entry(&self.directory)?;
            }
        }
        let mut warnings = clear_leftovers(&self.directory)?;
        let number = Listing::read(&self.directory)?.next_number();
        let (writing, path) = self.free_places(state.progress.step);
        let is_best = state.progress.is_best();
        if let Err(error) = Checkpoint::write(&writing, state, about, number) {
            // The disk may be full, so the half-written checkpoint is removed. The first error is reported.
            let _ = fs::remove_dir_all(&writing);
            return Err(error);
        }
        fs::rename(&writing, &path).map_err(StateError::io("write", &path))?;
        sync_directory(&self.directory)?;
        match Listing::read(&self.directory) {
            Ok(mut listing) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                listing.enter(&name, number, is_best);
                warnings.extend(self.move_links(&listing));
                // What cannot be read now may be what is to stay.
                let removed =
                    if listing.refused.is_empty() { listing.removable(keep_last) } else { Vec::new() };
                warnings.extend(removed.iter().filter_map(|name| remove(&self.directory, name)));
                warnings.extend(listing.refused);
            }
            Err(error) => warnings.push(error.to_string()),
        }
        Ok(SavedCheckpoint { path, warnings })
    }

    /// Clears what a crash left, and moves the links to the checkpoints that they are for. Returns a warning for each thing
    /// that the system refuses.
    ///
    /// # Errors
    /// Where the directory cannot be read.
    pub fn recover(&self) -> Result<Vec<String>, StateError> {
        let mut warnings = clear_leftovers(&self.directory)?;
        let listing = Listing::read(&self.directory)?;
        warnings.extend(self.move_links(&listing));
        warnings.extend(listing.refused.iter().cloned());
        warnings.extend(listing.others.iter().map(|name| {
            let path = self.directory.join(name);
            format!("`{}` is named like a checkpoint, but is not a directory; it is ignored", path.display())
        }));
        Ok(warnings)
    }

    /// Opens one of the checkpoints.
    ///
    /// # Errors
    /// Where it is absent or damaged.
    pub fn get(&self, which: Which) -> Result<FoundCheckpoint, StateError> {
        self.get_for(which, Parts::All)
    }

    fn get_for(&self, which: Which, parts: Parts) -> Result<FoundCheckpoint, StateError> {
        let directory = || self.directory.clone();
        let name = |found: Option<&Listed>| found.map(|it| vec![it.name.clone()]);
        let opened = match which {
            Which::Latest => {
                let found = self.newest_for(parts)?;
                let run = self.directory.parent().unwrap_or(&self.directory);
                return found.ok_or_else(|| StateError::NotACheckpoint { path: run.to_owned() });
            }
            Which::Best => self.open_first(parts, |listing| {
                name(listing.best()).ok_or_else(|| StateError::NoBest { directory: directory() })
            })?,
            Which::Step(step) => self.open_first(parts, |listing| {
                name(listing.of_step(step)).ok_or_else(|| StateError::NoStep {
                    directory: directory(),
                    step,
                    known: listing.steps(),
                })
            })?,
        };
        opened.map_err(|mut skipped| {
            // One checkpoint was to be opened, and has one error.
            skipped.pop().unwrap_or_else(|| StateError::NoBest { directory: directory() })
        })
    }

    /// Opens the newest readable checkpoint: the last save, or an earlier one where that is damaged. `None` without
    /// checkpoints.
    ///
    /// # Errors
    /// Where there are checkpoints, but none is readable.
    pub fn newest(&self) -> Result<Option<FoundCheckpoint>, StateError> {
        self.newest_for(Parts::All)
    }

    fn newest_for(&self, parts: Parts) -> Result<Option<FoundCheckpoint>, StateError> {
        match self.open_first(parts, |listing| Ok(listing.newest_first()))? {
            Ok(found) => Ok(Some(found)),
            Err(skipped) => {
                let count = skipped.len();
                let Some(newest) = skipped.into_iter().next().map(Box::new) else { return Ok(None) };
                Err(StateError::NoneReadable { directory: self.directory.clone(), count, newest })
            }
        }
    }

    /// Opens the first readable of the checkpoints that `choose` names. The inner error has the errors of all.
    ///
    /// A training may remove a checkpoint between the listing and the opening. Its newer ones are complete then, so the
    /// search starts again.
    fn open_first(
        &self,
        parts: Parts,
        choose: impl Fn(&Listing) -> Result<Vec<String>, StateError>,
    ) -> Result<Result<FoundCheckpoint, Vec<StateError>>, StateError> {
        let mut searches = 0;
        'search: loop {
            searches += 1;
            let mut skipped = Vec::new();
            for name in choose(&Listing::read(&self.directory)?)? {
                let path = self.directory.join(name);
                match Checkpoint::open_for(&path, parts) {
                    Ok(checkpoint) => return Ok(Ok(FoundCheckpoint { checkpoint, skipped })),
                    Err(_) if searches < MOST_SEARCHES && !path.exists() => continue 'search,
                    Err(error) => skipped.push(error),
                }
            }
            return Ok(Err(skipped));
        }
    }

    /// Moves the links to the checkpoints that they are for. A warning says which link the system refuses to move; readers
    /// of checkpoints do not need the links.
    fn move_links(&self, listing: &Listing) -> Vec<String> {
        let move_link = |link: &str, target: Option<&Listed>| {
            let (path, target) = (self.directory.join(link), Path::new(&target?.name));
            if link_target(&path).is_ok_and(|there| there == target) {
                return None;
            }
            let error = replace_link(&path, target).err()?;
            Some(format!("`{}` does not point to `{}`: {error}", path.display(), target.display()))
        };
        [move_link(BEST, listing.best()), move_link(LATEST, listing.latest())].into_iter().flatten().collect()
    }

    /// Where a checkpoint of a step is written, and where it is moved once it is complete. Nothing is at either place.
    fn free_places(&self, step: usize) -> (PathBuf, PathBuf) {
        let places = names_of(step)
            .map(|name| (self.directory.join(format!("{WRITING}{name}")), self.directory.join(name)));
        let is_free = |path: &Path| path.symlink_metadata().is_err();
        let mut free = places.filter(|(writing, path)| is_free(writing) && is_free(path));
        free.next().unwrap_or_default()
    }
}

/// The path that a link points to, or the path itself.
fn followed(path: &Path) -> PathBuf {
    /// More links after one another are a cycle.
    const MOST_LINKS: usize = 8;
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match link_target(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => break,
        }
    }
    path
}

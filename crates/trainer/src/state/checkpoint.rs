use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use oomph_data::{Source, SourceRecord};
use oomph_model::Named;

use super::{
    CheckpointStore, Found, HostTensor, OptimizerRecord, Progress, StateError, TrainState,
    disk::{sync_directory, write_durably},
    manifest::{FORMAT_VERSION, Manifest, sha256},
    tensor_file,
};

const MODEL: &str = "model.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
/// Only where there is something in it.
const CARRIED: &str = "carried.safetensors";
const CONFIG: &str = "config.toml";
/// Missing in checkpoints of the versions before it.
const SOURCE: &str = "source.json";
const STATE: &str = "state.json";

/// What a checkpoint says of its training beside the state.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The resolved configuration.
    pub config: &'a str,
    /// What is needed of the data to ask the model, where that is known.
    pub source: Option<&'a SourceRecord>,
}

/// A checkpoint on disk whose files are all there and verified.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    path: PathBuf,
    manifest: Manifest,
}

impl Checkpoint {
    /// Finds the checkpoint at `path`: its directory, or a run directory, whose newest readable one it is.
    ///
    /// # Errors
    /// Where there is none, or it is damaged.
    pub fn find(path: &Path) -> Result<Found, StateError> {
        if path.join(STATE).is_file() {
            return Ok(Found { checkpoint: Self::open(path)?, passed_over: Vec::new() });
        }
        let store = path.join(CheckpointStore::DIRECTORY);
        let found = if store.is_dir() { CheckpointStore::at(store).newest()? } else { None };
        found.ok_or_else(|| StateError::NotACheckpoint { path: path.to_owned() })
    }

    /// Opens the checkpoint in the directory `path` and verifies every file.
    ///
    /// # Errors
    /// Where a file is missing, damaged or of another format.
    pub fn open(path: &Path) -> Result<Self, StateError> {
        let file = path.join(STATE);
        let bytes = fs::read(&file).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => missing(path, STATE),
            _ => StateError::io("read", &file)(error),
        })?;
        let checkpoint = Self { path: path.to_owned(), manifest: Manifest::decode(&bytes, &file)? };
        let others = [CARRIED, SOURCE].into_iter().filter(|name| checkpoint.has(name));
        for name in [MODEL, OPTIMIZER, CONFIG].into_iter().chain(others) {
            checkpoint.read(name)?;
        }
        Ok(checkpoint)
    }

    /// Writes a checkpoint into the new directory `path` and flushes it to the disk.
    pub(crate) fn write(path: &Path, state: &TrainState, about: About<'_>) -> Result<(), StateError> {
        fs::create_dir(path).map_err(StateError::io("create", path))?;
        let mut files = BTreeMap::new();
        let mut put = |name: &str, bytes: &[u8]| {
            files.insert(name.to_owned(), sha256(bytes));
            write_durably(&path.join(name), bytes)
        };
        put(MODEL, &tensor_file::encode(&state.model, &path.join(MODEL))?)?;
        put(OPTIMIZER, &tensor_file::encode(&state.optimizer.tensors, &path.join(OPTIMIZER))?)?;
        if !state.carried.is_empty() {
            put(CARRIED, &tensor_file::encode(&state.carried, &path.join(CARRIED))?)?;
        }
        put(CONFIG, about.config.as_bytes())?;
        if let Some(source) = about.source {
            put(SOURCE, encode_source(source, &path.join(SOURCE))?.as_bytes())?;
        }
        let manifest = Manifest {
            format_version: FORMAT_VERSION,
            oomph_version: env!("CARGO_PKG_VERSION").to_owned(),
            progress: state.progress.clone(),
            optimizer_scalars: state.optimizer.scalars.clone(),
            optimizer_ranks: state.optimizer.ranks.clone(),
            loss_scale: state.loss_scale,
            files,
        };
        let file = path.join(STATE);
        write_durably(&file, &manifest.encode(&file)?)?;
        sync_directory(path)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The run directory that it lies in: the one above `checkpoints/`, if it lies in one.
    pub fn run_directory(&self) -> Option<PathBuf> {
        let above = |path: &Path| {
            let store = path.parent().filter(|store| store.ends_with(CheckpointStore::DIRECTORY))?;
            Some(store.parent()?.to_owned()).filter(|run| !run.as_os_str().is_empty())
        };
        // As it was named, where the name tells; `.` and links to it do not.
        above(&self.path).or_else(|| above(&self.path.canonicalize().ok()?))
    }

    /// How far the training was.
    pub fn progress(&self) -> &Progress {
        &self.manifest.progress
    }

    /// The resolved configuration that it was trained with.
    ///
    /// # Errors
    /// Where the file was damaged since the checkpoint was opened.
    pub fn config(&self) -> Result<String, StateError> {
        let bytes = self.read(CONFIG)?;
        String::from_utf8(bytes).map_err(|error| StateError::Malformed {
            path: self.path.join(CONFIG),
            reason: error.to_string(),
        })
    }

    /// What is needed of the data to ask the model.
    ///
    /// # Errors
    /// Where the checkpoint does not have it, or the file was damaged since the checkpoint was opened.
    pub fn source(&self) -> Result<SourceRecord, StateError> {
        let path = self.path.join(SOURCE);
        if !self.has_source() {
            return Err(StateError::NoSource { checkpoint: self.path.clone() });
        }
        serde_json::from_slice(&self.read(SOURCE)?)
            .map_err(|error| StateError::Malformed { path, reason: error.to_string() })
    }

    /// Whether it has what is needed of the data: those of versions before it do not.
    pub fn has_source(&self) -> bool {
        self.has(SOURCE)
    }

    /// Whether the classes of `source` are those that the model was trained on, in the same order. Of a checkpoint that does not know them nothing is asked.
    pub(crate) fn check_classes(&self, source: &dyn Source) -> Result<(), StateError> {
        if !self.has_source() {
            return Ok(());
        }
        match self.source()?.first_other_class(source) {
            Some(class) => Err(StateError::ClassesChanged { checkpoint: self.path.clone(), class }),
            None => Ok(()),
        }
    }

    /// Parameters and running statistics by name.
    ///
    /// # Errors
    /// Where the file was damaged since the checkpoint was opened.
    pub fn model(&self) -> Result<Named<HostTensor>, StateError> {
        tensor_file::decode(&self.read(MODEL)?, &self.path.join(MODEL))
    }

    /// The whole training state.
    ///
    /// # Errors
    /// Where a file was damaged since the checkpoint was opened.
    pub fn state(&self) -> Result<TrainState, StateError> {
        let optimizer = OptimizerRecord {
            tensors: tensor_file::decode(&self.read(OPTIMIZER)?, &self.path.join(OPTIMIZER))?,
            scalars: self.manifest.optimizer_scalars.clone(),
            ranks: self.manifest.optimizer_ranks.clone(),
        };
        let Manifest { progress, loss_scale, .. } = self.manifest.clone();
        let carried = match self.has(CARRIED) {
            true => tensor_file::decode(&self.read(CARRIED)?, &self.path.join(CARRIED))?,
            false => Named::new(),
        };
        Ok(TrainState { progress, model: self.model()?, optimizer, loss_scale, carried })
    }

    /// Whether a file is part of it.
    fn has(&self, name: &str) -> bool {
        self.manifest.files.contains_key(name)
    }

    /// Reads a file and checks it against its checksum.
    fn read(&self, name: &str) -> Result<Vec<u8>, StateError> {
        let path = self.path.join(name);
        let expected = self.manifest.files.get(name).ok_or_else(|| missing(&self.path, name))?;
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => missing(&self.path, name),
            _ => StateError::io("read", &path)(error),
        })?;
        if sha256(&bytes) == *expected { Ok(bytes) } else { Err(StateError::Checksum { path }) }
    }
}

/// JSON for `path`.
pub(crate) fn encode_source(source: &SourceRecord, path: &Path) -> Result<String, StateError> {
    serde_json::to_string_pretty(source)
        .map_err(|error| StateError::Malformed { path: path.to_owned(), reason: error.to_string() })
}

fn missing(checkpoint: &Path, file: &str) -> StateError {
    StateError::MissingFile { checkpoint: checkpoint.to_owned(), file: file.to_owned() }
}

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, ErrorKind, Write},
    mem,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use oomph_core::Bytes;
use oomph_data::{Source, SourceRecord};
use oomph_engine::{HostTensor, loss_scale::LossScale, record::OptimizerRecord};
use oomph_model::Named;

use super::{
    StateError, TrainProgress,
    disk::{sync_directory, write_durably},
    listing::step_of,
    manifest::{AVERAGE, FORMAT_VERSION, Manifest, sha256},
    weight_file::{check, check_state, decode, decode_state, encode_source, state_file, tensor_file},
};

const MODEL: &str = "model.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
/// Absent without carried state.
const CARRIED: &str = "carried.safetensors";
const CONFIG: &str = "config.toml";
/// Absent in older checkpoints.
const SOURCE: &str = "source.json";
/// The directory of checkpoints in a run directory.
pub(super) const DIRECTORY: &str = "checkpoints";
pub(super) const STATE: &str = "state.json";

/// The state that a resumed training needs to continue with the same bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainState {
    /// How far the training has come.
    pub progress: TrainProgress,
    /// Parameters and running statistics by name.
    pub model: Named<HostTensor>,
    /// The optimizer's state.
    pub optimizer: OptimizerRecord,
    /// The loss scale, with fp16.
    pub loss_scale: Option<LossScale>,
    /// The carried state by layer; empty without one.
    pub carried: Named<HostTensor>,
    /// The average of the weights, if there is one.
    pub average: Option<AverageState>,
}

impl TrainState {
    /// The memory that the largest of its tensors takes.
    pub fn largest_tensor(&self) -> Bytes {
        let averages = self.average.iter().map(|average| &average.model);
        let tensors = [&self.model, &self.optimizer.tensors, &self.carried].into_iter().chain(averages);
        let floats =
            tensors.flat_map(|tensors| tensors.values()).map(|tensor| size_of_val(&tensor.values[..]));
        let packed = self.optimizer.packed.values().map(|packed| packed.bytes());
        Bytes::new(floats.chain(packed).max().unwrap_or_default() as u64)
    }
}

/// The average of the weights over steps.
#[derive(Clone, Debug, PartialEq)]
pub struct AverageState {
    /// The averages of parameters and running statistics by name.
    pub model: Named<HostTensor>,
    /// The number of updates so far.
    pub updates: u64,
}

/// What a checkpoint records beside the training state.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The resolved configuration.
    pub config: &'a str,
    /// The record of the data that predictions need, if known.
    pub source: Option<&'a SourceRecord>,
}

/// The parts of a checkpoint that its reader needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    /// To resume.
    All,
    /// To evaluate, predict or export.
    Weights,
}

/// A checkpoint on disk. The files of the parts that it was opened for are verified.
///
/// Its files stay open: a training that removes the checkpoint takes nothing away from its readers.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    path: PathBuf,
    manifest: Manifest,
    files: BTreeMap<String, Arc<File>>,
    is_raw: bool,
    read: ReadWeights,
}

/// The tensors of a file that were read when the checkpoint was opened, until they are taken.
type ReadWeights = Arc<Mutex<Option<(&'static str, Named<HostTensor>)>>>;

impl Checkpoint {
    /// Opens the checkpoint in the directory `path` and verifies every file: its checksum, and that it can be decoded.
    ///
    /// # Errors
    /// Where a file is missing, damaged or has another format.
    pub fn open(path: &Path) -> Result<Self, StateError> {
        Self::open_for(path, Parts::All)
    }

    /// Opens the checkpoint in the directory `path` and verifies the files of the `parts`. With [`Parts::Weights`] it keeps the
    /// weights for the first call of [`weights`](Self::weights), which then reads no file.
    pub(super) fn open_for(path: &Path, parts: Parts) -> Result<Self, StateError> {
        let mut checkpoint = Self {
            path: path.to_owned(),
            manifest: read_manifest(path)?,
            files: BTreeMap::new(),
            is_raw: false,
            read: ReadWeights::default(),
        };
        let others = [AVERAGE, CARRIED, SOURCE].into_iter().filter(|name| checkpoint.has(name));
        for name in [MODEL, OPTIMIZER, CONFIG].into_iter().chain(others.collect::<Vec<_>>()) {
            checkpoint.files.insert(name.to_owned(), Arc::new(open_file(path, name)?));
            match name {
                CONFIG => drop(checkpoint.config()?),
                SOURCE => drop(checkpoint.recorded_source()?),
                _ if parts == Parts::Weights => {}
                OPTIMIZER => check_state(&checkpoint.read(name)?, &path.join(name))?,
                tensors => check(&checkpoint.read(tensors)?, &path.join(tensors))?,
            }
        }
        if parts == Parts::Weights {
            let name = checkpoint.weights_file();
            let tensors = checkpoint.tensors(name)?;
            checkpoint.read = Arc::new(Mutex::new(Some((name, tensors))));
        }
        Ok(checkpoint)
    }

    /// Writes a checkpoint into the new directory `path` and flushes it to the disk. `save_number` is the number of the save
    /// within the run.
    pub(crate) fn write(
        path: &Path,
        state: TrainState,
        about: About<'_>,
        save_number: u64,
    ) -> Result<(), StateError> {
        fs::create_dir(path).map_err(StateError::io("create", path))?;
        let mut files = BTreeMap::new();
        let mut put = |name: &str, write: &dyn Fn(&mut dyn Write) -> io::Result<()>| {
            let digest = write_durably(&path.join(name), write)?;
            files.insert(name.to_owned(), digest);
            Ok::<_, StateError>(())
        };
        let TrainState { progress, model, optimizer, loss_scale, carried, average } = state;
        let (optimizer_scalars, optimizer_ranks) = (optimizer.scalars.clone(), optimizer.ranks.clone());
        let average_updates = average.as_ref().map(|average| average.updates);
        // Each part is dropped once it is written.
        let mut put_tensors = |name: &str, tensors: Named<HostTensor>| {
            let file = tensor_file(&tensors, &path.join(name))?;
            put(name, &|to| file.write(to))
        };
        put_tensors(MODEL, model)?;
        if let Some(average) = average {
            put_tensors(AVERAGE, average.model)?;
        }
        if !carried.is_empty() {
            put_tensors(CARRIED, carried)?;
        }
        let file = state_file(&optimizer, &path.join(OPTIMIZER))?;
        put(OPTIMIZER, &|to| file.write(to))?;
        drop(optimizer);
        put(CONFIG, &|to| to.write_all(about.config.as_bytes()))?;
        if let Some(source) = about.source {
            let source = encode_source(source, &path.join(SOURCE))?;
            put(SOURCE, &|to| to.write_all(source.as_bytes()))?;
        }
        let manifest = Manifest {
            format_version: FORMAT_VERSION,
            oomph_version: env!("CARGO_PKG_VERSION").to_owned(),
            save_number,
            progress,
            optimizer_scalars,
            optimizer_ranks,
            loss_scale,
            average_updates,
            files,
        };
        let file = path.join(STATE);
        let manifest = manifest.encode(&file)?;
        write_durably(&file, |to| to.write_all(&manifest))?;
        sync_directory(path)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The run directory of the checkpoint: the directory above `checkpoints/`, if there is one.
    pub fn run_directory(&self) -> Option<PathBuf> {
        let above = |path: &Path| {
            let store = path.parent().filter(|store| store.ends_with(DIRECTORY))?;
            Some(store.parent()?.to_owned()).filter(|run| !run.as_os_str().is_empty())
        };
        // The given path decides, unless it is `.` or a link.
        above(&self.path).or_else(|| above(&self.path.canonicalize().ok()?))
    }

    /// How far the training had come.
    pub fn progress(&self) -> &TrainProgress {
        &self.manifest.progress
    }

    /// The resolved configuration of the training.
    ///
    /// # Errors
    /// Where the file was damaged after the checkpoint was opened.
    pub fn config(&self) -> Result<String, StateError> {
        String::from_utf8(self.read(CONFIG)?)
            .map_err(|error| StateError::malformed(self.path.join(CONFIG), error))
    }

    /// The record of the data that predictions need.
    ///
    /// # Errors
    /// Where the checkpoint has no record, or the file was damaged after the checkpoint was opened.
    pub fn source(&self) -> Result<SourceRecord, StateError> {
        self.recorded_source()?.ok_or_else(|| StateError::NoSource { checkpoint: self.path.clone() })
    }

    /// The record of the data. `None` in older checkpoints.
    ///
    /// # Errors
    /// Where the file was damaged after the checkpoint was opened.
    pub fn recorded_source(&self) -> Result<Option<SourceRecord>, StateError> {
        if !self.has(SOURCE) {
            return Ok(None);
        }
        let record = serde_json::from_slice(&self.read(SOURCE)?);
        record.map(Some).map_err(|error| StateError::malformed(self.path.join(SOURCE), error))
    }

    /// Checks that `source` has the classes, the columns and the tokenizer of the training, in the same order. A checkpoint without a record of
    /// them passes.
    ///
    /// # Errors
    /// [`StateError::TargetChanged`] for another kind of target, [`StateError::TokenizerChanged`], [`StateError::ClassesChanged`] or
    /// [`StateError::ColumnsChanged`] with the first that differs.
    pub fn check_source(&self, source: &dyn Source) -> Result<(), StateError> {
        let Some(record) = self.recorded_source()? else { return Ok(()) };
        let checkpoint = || self.path.clone();
        let (before, now) = (&record.spec.target, &source.spec().target);
        if mem::discriminant(before) != mem::discriminant(now) {
            let (before, now) = (before.clone(), now.clone());
            return Err(StateError::TargetChanged { checkpoint: checkpoint(), before, now });
        }
        if let Some(difference) = record.other_tokenizer(source) {
            return Err(StateError::TokenizerChanged { checkpoint: checkpoint(), difference });
        }
        if let Some(class) = record.first_other_class(source) {
            return Err(StateError::ClassesChanged { checkpoint: checkpoint(), class });
        }
        match record.first_other_column(source) {
            // Only records with columns have another one.
            Some(column) => Err(StateError::ColumnsChanged {
                checkpoint: checkpoint(),
                column: Box::new(column),
                columns: record.columns.map_or_else(Vec::new, |columns| columns.inputs),
            }),
            None => Ok(()),
        }
    }

    /// Parameters and running statistics by name.
    ///
    /// # Errors
    /// Where the file was damaged after the checkpoint was opened.
    pub fn model(&self) -> Result<Named<HostTensor>, StateError> {
        self.tensors(MODEL)
    }

    /// The average of the weights, if the training kept one.
    ///
    /// # Errors
    /// Where the file was damaged after the checkpoint was opened.
    pub fn average(&self) -> Result<Option<AverageState>, StateError> {
        let Some(updates) = self.manifest.average_updates else { return Ok(None) };
        Ok(Some(AverageState { model: self.tensors(AVERAGE)?, updates }))
    }

    /// Whether [`weights`](Self::weights) are those of the last step, even if the training kept an average.
    #[must_use]
    pub fn raw(self, is_raw: bool) -> Self {
        Self { is_raw, ..self }
    }

    /// The weights to evaluate, to predict with and to export: the average, if the training kept one, unless the
    /// [raw](Self::raw) ones are asked for.
    ///
    /// # Errors
    /// Where the file was damaged after the checkpoint was opened.
    pub fn weights(&self) -> Result<Named<HostTensor>, StateError> {
        let name = self.weights_file();
        // Whoever panicked with the lock left whole tensors or none.
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner).take();
        match read.filter(|(read, _)| *read == name) {
            Some((_, tensors)) => Ok(tensors),
            None => self.tensors(name),
        }
    }

    fn weights_file(&self) -> &'static str {
        if self.has_average() { AVERAGE } else { MODEL }
    }

    /// Whether [`weights`](Self::weights) are averages.
    pub fn has_average(&self) -> bool {
        self.manifest.average_updates.is_some() && !self.is_raw
    }

    /// The whole training state.
    ///
    /// # Errors
    /// Where a file was damaged after the checkpoint was opened.
    pub fn state(&self) -> Result<TrainState, StateError> {
        let optimizer = OptimizerRecord {
            scalars: self.manifest.optimizer_scalars.clone(),
            ranks: self.manifest.optimizer_ranks.clone(),
            ..decode_state(&self.read(OPTIMIZER)?, &self.path.join(OPTIMIZER))?
        };
        let Manifest { progress, loss_scale, .. } = self.manifest.clone();
        let carried = match self.has(CARRIED) {
            true => self.tensors(CARRIED)?,
            false => Named::new(),
        };
        let average = self.average()?;
        Ok(TrainState { progress, model: self.model()?, optimizer, loss_scale, carried, average })
    }

    fn has(&self, name: &str) -> bool {
        self.manifest.files.contains_key(name)
    }

    /// Reads a file and verifies its checksum.
    fn read(&self, name: &str) -> Result<Vec<u8>, StateError> {
        let (expected, file) = match (self.manifest.files.get(name), self.files.get(name)) {
            (Some(expected), Some(file)) => (expected, file),
            _ => return Err(missing(&self.path, name)),
        };
        let bytes = read_whole(file).map_err(StateError::io("read", self.path.join(name)))?;
        if sha256(&bytes) != *expected {
            return Err(StateError::Checksum { path: self.path.join(name) });
        }
        Ok(bytes)
    }

    fn tensors(&self, name: &str) -> Result<Named<HostTensor>, StateError> {
        decode(self.read(name)?, &self.path.join(name))
    }
}

/// Reads and verifies `state.json` of the checkpoint in a directory.
pub(super) fn read_manifest(checkpoint: &Path) -> Result<Manifest, StateError> {
    let path = checkpoint.join(STATE);
    let bytes = read_whole(&open_file(checkpoint, STATE)?).map_err(StateError::io("read", &path))?;
    let manifest = Manifest::decode(&bytes, &path)?;
    let named = checkpoint.file_name().and_then(|name| step_of(&name.to_string_lossy()));
    match named.filter(|named| *named != manifest.progress.step) {
        Some(named) => Err(StateError::Contradiction {
            path,
            field: "progress.step",
            found: manifest.progress.step.to_string(),
            expected: format!("{named}, as in the name of the checkpoint"),
        }),
        None => Ok(manifest),
    }
}

fn open_file(checkpoint: &Path, name: &str) -> Result<File, StateError> {
    let path = checkpoint.join(name);
    oomph_core::open_file(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => missing(checkpoint, name),
        _ => StateError::io("read", &path)(error),
    })
}

/// Reads from the start, so that copies of the handle may read at the same time.
fn read_whole(file: &File) -> io::Result<Vec<u8>> {
    let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length)?;
    bytes.resize(length, 0);
    oomph_core::system::read_exact_at(file, &mut bytes, 0)?;
    Ok(bytes)
}

fn missing(checkpoint: &Path, file: &str) -> StateError {
    StateError::MissingFile { checkpoint: checkpoint.to_owned(), file: file.to_owned() }
}

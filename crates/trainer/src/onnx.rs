//! Exports a model with its weights to an ONNX file.

use std::path::{Path, PathBuf};

use oomph_core::{
    Account, Bytes, charge,
    files::{Existing, WriteError, write_file},
};
use oomph_data::SourceRecord;
use oomph_engine::{HostTensor, record::model_record, session::Session};
use oomph_model::{Architecture, ModelError, Named, onnx_graph};
use oomph_onnx::{Graph, OPSET, OnnxError, Parameter};
use oomph_runs::state::{Checkpoint, StateError};
use serde::Serialize;

use crate::{TrainError, merge::merged, open::model_of_weights};

/// Why a model was not exported.
#[derive(Debug, thiserror::Error)]
pub enum OnnxExportError {
    /// The checkpoint cannot be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// The weights cannot be read.
    #[error(transparent)]
    Train(#[from] Box<TrainError>),
    /// The model cannot be exported.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The checkpoint does not say what an input is.
    #[error("`{}` has no `source.json`, which has the shape of the inputs", path.display())]
    NoSource {
        /// The checkpoint.
        path: PathBuf,
    },
    /// The file cannot be written.
    #[error("cannot write `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: OnnxError,
    },
}

impl OnnxExportError {
    /// What the user can do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::State(error) => error.hint(),
            Self::Train(error) => error.hint(),
            Self::Model(error) => error.hint(),
            Self::NoSource { .. } => Some("export the weights with `--to FILE.safetensors`".into()),
            Self::File { .. } => None,
        }
    }
}

/// An ONNX file that was written.
#[derive(Clone, Debug, Serialize)]
pub struct ExportedOnnx {
    /// The file.
    pub path: PathBuf,
    /// The version of its operators.
    pub opset: u64,
    /// Elements of parameters and running statistics.
    pub elements: usize,
    /// Its size.
    pub bytes: Bytes,
}

/// Writes the model of a checkpoint of `architecture` with its [weights](Checkpoint::weights), in evaluation mode, to the ONNX
/// file `path`. The file is complete or absent.
///
/// # Errors
/// Where the model has a stage that cannot be exported, where the checkpoint has no record of its data or was damaged after it
/// was opened, where an existing file stays, and where the file cannot be written.
pub fn export_onnx(
    architecture: &Architecture,
    checkpoint: &Checkpoint,
    path: &Path,
    existing: Existing,
) -> Result<ExportedOnnx, OnnxExportError> {
    charge(Account::Host, || {
        let no_source = || OnnxExportError::NoSource { path: checkpoint.path().to_owned() };
        let source = checkpoint.recorded_source()?.ok_or_else(no_source)?;
        write(architecture, &merged(architecture, checkpoint.weights()?), &source, path, existing)
    })
}

/// Exports the model with the weights of `model.weights`, untrained. Otherwise as [`export_onnx`]. Returns the notices about the
/// weights too.
///
/// # Errors
/// Where `model.weights` cannot be read or does not fit the model; otherwise those of [`export_onnx`].
pub fn export_onnx_weights(
    session: &Session,
    path: &Path,
    existing: Existing,
) -> Result<(ExportedOnnx, Vec<String>), OnnxExportError> {
    let (model, weights) = model_of_weights(session).map_err(|error| Box::new(TrainError::from(error)))?;
    charge(Account::Host, || {
        let source = SourceRecord::of(session.source.as_ref());
        let record = model_record(&model).map_err(|error| Box::new(TrainError::from(error)))?;
        let record = merged(&session.architecture, record);
        let exported = write(&session.architecture, &record, &source, path, existing)?;
        Ok((exported, weights.notices))
    })
}

fn write(
    architecture: &Architecture,
    model: &Named<HostTensor>,
    source: &SourceRecord,
    path: &Path,
    existing: Existing,
) -> Result<ExportedOnnx, OnnxExportError> {
    let mut graph = onnx_graph(architecture, &source.spec)?;
    describe(&mut graph, source);
    let parameter =
        |name: &str| model.get(name).map(|tensor| Parameter { shape: &tensor.shape, values: &tensor.values });
    let refused = |source: OnnxError| OnnxExportError::File { path: path.to_owned(), source };
    let mut failed = None;
    let written = write_file(path, existing, |out| {
        oomph_onnx::write(&graph, &parameter, out).map_err(|error| match error {
            OnnxError::Io(error) => error,
            error => {
                let shown = std::io::Error::other(error.to_string());
                failed = Some(error);
                shown
            }
        })
    });
    match (written, failed) {
        (_, Some(error)) => return Err(refused(error)),
        (Err(WriteError::Io(error)), None) => return Err(refused(error.into())),
        (Err(error), None) => return Err(refused(std::io::Error::from(error).into())),
        (Ok(()), None) => {}
    }
    let bytes = path.metadata().map_err(|error| refused(error.into()))?.len();
    Ok(ExportedOnnx {
        path: path.to_owned(),
        opset: OPSET,
        elements: model.values().map(|tensor| tensor.values.len()).sum(),
        bytes: Bytes::new(bytes),
    })
}

/// What a program needs beside the model: names of outputs, and how inputs were normalised. Everything that is recorded of the
/// data is under [`SourceRecord::NOTE`] too.
fn describe(graph: &mut Graph, source: &SourceRecord) {
    if let Some(names) = &source.class_names {
        graph.note(if source.is_text() { "tokens" } else { "classes" }, serde_json::json!(names).to_string());
    }
    if let Some(statistics) = source.trained_statistics().filter(|statistics| !statistics.mean.is_empty()) {
        graph.note("mean", serde_json::json!(statistics.mean).to_string());
        graph.note("std", serde_json::json!(statistics.std).to_string());
    }
    graph.note(SourceRecord::NOTE, serde_json::json!(source).to_string());
}

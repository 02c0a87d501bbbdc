//! Exports weights to a file that PyTorch loads.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use oomph_core::{Account, Bytes, charge, files::Existing};
use oomph_data::SourceRecord;
use oomph_model::{Architecture, Named, weights::TensorForm};
use serde::Serialize;

use oomph_engine::{HostTensor, record::model_record, session::Session};
use oomph_runs::state::{
    Checkpoint, StateError,
    weight_file::{self, WeightTensor},
};

use crate::{TrainError, merge::merged, open::model_of_weights};

/// The tensor names of a weight file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightLayout {
    /// The names of PyTorch's model of that kind. For ResNets those of torchvision, which loads the file with `strict=True`.
    #[default]
    Pytorch,
    /// The names of oomph's model, as in a checkpoint's `model.safetensors`.
    Oomph,
}

/// A weight file that was written.
#[derive(Clone, Debug, Serialize)]
pub struct Exported {
    /// The file.
    pub path: PathBuf,
    /// Its tensor names.
    pub layout: WeightLayout,
    /// The number of tensors.
    pub tensors: usize,
    /// Elements of parameters and running statistics.
    pub elements: usize,
    /// Its size.
    pub bytes: Bytes,
}

/// Writes the [weights](Checkpoint::weights) of a checkpoint of `architecture` to the safetensors file `path`, with the changes of
/// [adapters](oomph_model::lora::Lora) in them. The file is complete or absent.
///
/// # Errors
/// Where the checkpoint was damaged after it was opened, where an existing file stays, and where the file cannot be written.
pub fn export(
    architecture: &Architecture,
    checkpoint: &Checkpoint,
    layout: WeightLayout,
    path: &Path,
    existing: Existing,
) -> Result<Exported, StateError> {
    charge(Account::Host, || {
        let source = checkpoint.recorded_source()?;
        let steps = checkpoint.progress().step;
        let weights = merged(architecture, checkpoint.weights()?);
        write(architecture, &weights, steps, source.as_ref(), layout, path, existing)
    })
}

/// Exports the weights of `model.weights`, untrained. Otherwise as [`export`]. Returns the notices about the weights too.
///
/// # Errors
/// Where `model.weights` cannot be read or does not fit the model, and where the new file cannot be written.
pub fn export_weights(
    session: &Session,
    layout: WeightLayout,
    path: &Path,
    existing: Existing,
) -> Result<(Exported, Vec<String>), TrainError> {
    let (model, weights) = model_of_weights(session)?;
    charge(Account::Host, || {
        let source = SourceRecord::of(session.source.as_ref());
        let record = merged(&session.architecture, model_record(&model)?);
        let exported = write(&session.architecture, &record, 0, Some(&source), layout, path, existing)?;
        Ok((exported, weights.notices))
    })
}

/// Writes a weight file. `steps` is PyTorch's `num_batches_tracked` of batch normalisation, `source` the data that the
/// weights were trained on, if known.
fn write(
    architecture: &Architecture,
    model: &Named<HostTensor>,
    steps: usize,
    source: Option<&SourceRecord>,
    layout: WeightLayout,
    path: &Path,
    existing: Existing,
) -> Result<Exported, StateError> {
    let of_pytorch = (layout == WeightLayout::Pytorch).then(|| in_pytorch_form(architecture, model));
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    let mut tensors: BTreeMap<String, WeightTensor<'_>> = BTreeMap::new();
    for (own, tensor) in model {
        let tensor = of_pytorch.as_ref().and_then(|converted| converted.get(own)).unwrap_or(tensor);
        let name = match layout {
            WeightLayout::Pytorch => architecture.pytorch_name(own),
            WeightLayout::Oomph => own.clone(),
        };
        if let Some(first) = names.insert(name.clone(), own) {
            return Err(StateError::OneName { first: first.to_owned(), second: own.clone(), name });
        }
        // Steps always fit 63 bits.
        let counted = (layout == WeightLayout::Pytorch).then(|| name.strip_suffix(".running_mean")).flatten();
        if let Some(norm) = counted {
            tensors.insert(format!("{norm}.num_batches_tracked"), WeightTensor::Count(steps as i64));
        }
        tensors.insert(name, WeightTensor::Floats(tensor));
    }
    for (own, twin) in architecture.pytorch_twins().iter().filter(|_| layout == WeightLayout::Pytorch) {
        tensors.extend(model.get(own).map(|tensor| (twin.clone(), WeightTensor::Floats(tensor))));
    }
    weight_file::write(&tensors, source, path, existing)?;
    let bytes = path.metadata().map_err(StateError::io("read", path))?.len();
    Ok(Exported {
        path: path.to_owned(),
        layout,
        tensors: tensors.len(),
        elements: model.values().map(|tensor| tensor.values.len()).sum(),
        bytes: Bytes::new(bytes),
    })
}

/// The tensors that PyTorch stores in another form, in that form.
fn in_pytorch_form(architecture: &Architecture, model: &Named<HostTensor>) -> Named<HostTensor> {
    let converted = model.iter().filter_map(|(name, HostTensor { shape, values })| {
        let form = architecture.pytorch_form(name, shape);
        let tensor = || HostTensor { shape: form.shape(shape), values: form.to_file(values.clone(), shape) };
        (form != TensorForm::Same).then(|| (name.clone(), tensor()))
    });
    converted.collect()
}

//! Weights for others: a file that PyTorch loads.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use oomph_core::{Account, Bytes, charge};
use oomph_data::SourceRecord;
use oomph_model::{Architecture, Named};
use serde::Serialize;

use crate::{
    Session, TrainError,
    state::{
        Checkpoint, HostTensor, StateError, encode_source, model_record,
        tensor_file::{self, Exported as Tensor},
    },
};

/// How a file of weights calls its tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// As PyTorch's network of that kind does: of a ResNet that of torchvision, which loads it with `strict=True`.
    #[default]
    Pytorch,
    /// As the model tree does, and a checkpoint's `model.safetensors`.
    Oomph,
}

/// A file of weights that was written.
#[derive(Clone, Debug, Serialize)]
pub struct Exported {
    /// The file.
    pub path: PathBuf,
    /// How it calls its tensors.
    pub layout: Layout,
    /// How many it has.
    pub tensors: usize,
    /// The elements of parameters and running statistics.
    pub elements: usize,
    /// Its size.
    pub bytes: Bytes,
}

/// Writes the parameters and running statistics of a checkpoint of `architecture` to the safetensors file `path`, which
/// is whole or not there.
///
/// # Errors
/// Where the checkpoint was damaged since it was opened, and where the file cannot be written.
pub fn export(
    architecture: &Architecture,
    checkpoint: &Checkpoint,
    layout: Layout,
    path: &Path,
) -> Result<Exported, StateError> {
    charge(Account::Host, || {
        let source = if checkpoint.has_source() { Some(checkpoint.source()?) } else { None };
        let target = Target { layout, path, source: source.as_ref() };
        write(architecture, &checkpoint.model()?, checkpoint.progress().step, target)
    })
}

/// As [`export`], of the weights of `model.weights`, which no step was trained with here. What is to be known of them comes
/// back too.
///
/// # Errors
/// Where the file of weights cannot be read or does not fit the model, and where the other cannot be written.
pub fn export_weights(
    session: &Session,
    layout: Layout,
    path: &Path,
) -> Result<(Exported, Vec<String>), TrainError> {
    let (model, weights) = session.model_of_weights()?;
    charge(Account::Host, || {
        let source = SourceRecord::of(session.source.as_ref());
        let target = Target { layout, path, source: Some(&source) };
        let exported = write(&session.architecture, &model_record(&model)?, 0, target)?;
        Ok((exported, weights.notices))
    })
}

/// What is written where.
struct Target<'a> {
    layout: Layout,
    path: &'a Path,
    /// What the weights were trained on, where that is known.
    source: Option<&'a SourceRecord>,
}

/// `steps` is how often batch normalisation saw a batch, as PyTorch counts it.
fn write(
    architecture: &Architecture,
    model: &Named<HostTensor>,
    steps: usize,
    Target { layout, path, source }: Target<'_>,
) -> Result<Exported, StateError> {
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    let mut tensors: BTreeMap<String, Tensor<'_>> = BTreeMap::new();
    for (own, tensor) in model {
        let name = match layout {
            Layout::Pytorch => architecture.pytorch_name(own),
            Layout::Oomph => own.clone(),
        };
        if let Some(first) = names.insert(name.clone(), own) {
            return Err(StateError::OneName { first: first.to_owned(), second: own.clone(), name });
        }
        // No training takes more steps than 63 bits count.
        let counted = (layout == Layout::Pytorch).then(|| name.strip_suffix(".running_mean")).flatten();
        if let Some(norm) = counted {
            tensors.insert(format!("{norm}.num_batches_tracked"), Tensor::Count(steps as i64));
        }
        tensors.insert(name, Tensor::Floats(tensor));
    }
    for (own, twin) in architecture.pytorch_twins().iter().filter(|_| layout == Layout::Pytorch) {
        tensors.extend(model.get(own).map(|tensor| (twin.clone(), Tensor::Floats(tensor))));
    }
    let source = source.map(|source| encode_source(source, path)).transpose()?;
    tensor_file::write(&tensors, source.map(|source| (SourceRecord::NOTE.to_owned(), source)), path)?;
    let bytes = path.metadata().map_err(StateError::io("read", path))?.len();
    Ok(Exported {
        path: path.to_owned(),
        layout,
        tensors: tensors.len(),
        elements: model.values().map(|tensor| tensor.values.len()).sum(),
        bytes: Bytes::new(bytes),
    })
}

//! Exports weights to a file that PyTorch loads, or to a folder that Hugging Face's `transformers` loads.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use oomph_config::Config;
use oomph_core::{Account, Bytes, charge, files::Existing};
use oomph_data::SourceRecord;
use oomph_hub::{HubError, config_json};
use oomph_model::{
    Architecture, Named,
    weights::{Layout, Library, TensorForm, TensorPart},
};
use serde::Serialize;

use oomph_engine::{HostTensor, record::model_record, session::Session};
use oomph_runs::state::{
    Checkpoint, StateError,
    weight_file::{self, WeightTensor},
};

use crate::{SessionError, TrainError, merge::merged, open::model_of_weights};

/// The tensor names of a weight file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightLayout {
    /// The names of PyTorch's model of that kind. For ResNets those of torchvision, which loads the file with `strict=True`.
    #[default]
    Pytorch,
    /// The names of Hugging Face's model.
    HuggingFace,
    /// The names of oomph's model, as in a checkpoint's `model.safetensors`.
    Oomph,
}

/// A weight file that was written.
#[derive(Clone, Debug, Serialize)]
pub struct Exported {
    /// The file, or the folder with it.
    pub path: PathBuf,
    /// The class of `transformers` that a folder is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<&'static str>,
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

/// The file of weights in a folder of Hugging Face.
pub const FOLDER_WEIGHTS: &str = "model.safetensors";
/// The file of settings in a folder of Hugging Face.
pub const FOLDER_CONFIG: &str = oomph_hub::FILE;

/// Writes the weights of a checkpoint to a folder that Hugging Face's `from_pretrained` loads: `model.safetensors`, and a
/// `config.json` of the settings in `config`, which the registry has read. Otherwise as [`export`].
///
/// # Errors
/// Where Hugging Face has no such model, or it cannot have one of the settings; otherwise as [`export`].
pub fn export_folder(
    config: &Config,
    architecture: &Architecture,
    checkpoint: &Checkpoint,
    folder: &Path,
    existing: Existing,
) -> Result<Exported, TrainError> {
    charge(Account::Host, || {
        let no_source = || StateError::NoSource { checkpoint: checkpoint.path().to_owned() };
        let source = checkpoint.recorded_source()?.ok_or_else(no_source)?;
        let weights = merged(architecture, checkpoint.weights()?);
        let network = Network { config, architecture, source: &source };
        network.write(&weights, checkpoint.progress().step, folder, existing)
    })
}

/// Exports the weights of `model.weights`, untrained. Otherwise as [`export_folder`]. Returns the notices about the weights too.
///
/// # Errors
/// Where `model.weights` cannot be read or does not fit the model; otherwise as [`export_folder`].
pub fn export_folder_weights(
    session: &Session,
    folder: &Path,
    existing: Existing,
) -> Result<(Exported, Vec<String>), TrainError> {
    let (model, weights) = model_of_weights(session)?;
    charge(Account::Host, || {
        let source = SourceRecord::of(session.source.as_ref());
        let record = merged(&session.architecture, model_record(&model)?);
        let network =
            Network { config: &session.config, architecture: &session.architecture, source: &source };
        Ok((network.write(&record, 0, folder, existing)?, weights.notices))
    })
}

/// A network for a folder of Hugging Face.
struct Network<'a> {
    config: &'a Config,
    architecture: &'a Architecture,
    source: &'a SourceRecord,
}

impl Network<'_> {
    fn write(
        &self,
        model: &Named<HostTensor>,
        steps: usize,
        folder: &Path,
        existing: Existing,
    ) -> Result<Exported, TrainError> {
        let Self { config, architecture, source } = self;
        let refused = |error: HubError| SessionError::from(error);
        let described =
            config_json(&config.resolved(), &source.spec, source.class_names.as_deref()).map_err(refused)?;
        make_folder(folder).map_err(StateError::io("make", folder))?;
        let path = folder.join(FOLDER_WEIGHTS);
        let layout = WeightLayout::HuggingFace;
        let exported = write(architecture, model, steps, Some(source), layout, &path, existing)?;
        // Only a folder with its weights gets the settings.
        let path = folder.join(FOLDER_CONFIG);
        oomph_core::files::write_file(&path, existing, |out| out.write_all(described.text.as_bytes()))
            .map_err(|error| StateError::io("write", &path)(error.into()))?;
        Ok(Exported { path: folder.to_owned(), class: Some(described.class), ..exported })
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        made => made,
    }
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
    let of_library = match layout {
        WeightLayout::Pytorch => architecture.layouts().first(),
        WeightLayout::HuggingFace => architecture.layout(Library::HuggingFace),
        WeightLayout::Oomph => None,
    };
    let named = named(model, of_library)?;
    let mut tensors: BTreeMap<String, WeightTensor<'_>> =
        named.iter().map(|(name, (_, tensor))| (name.clone(), WeightTensor::Floats(tensor))).collect();
    let normed = named.keys().filter_map(|name| name.strip_suffix(".running_mean"));
    for norm in normed.filter(|_| layout != WeightLayout::Oomph) {
        // Steps always fit 63 bits.
        tensors.insert(format!("{norm}.num_batches_tracked"), WeightTensor::Count(steps as i64));
    }
    let settings = architecture.unshown_settings();
    weight_file::write(&tensors, source, settings, path, existing)?;
    let bytes = path.metadata().map_err(StateError::io("read", path))?.len();
    Ok(Exported {
        path: path.to_owned(),
        class: None,
        layout,
        tensors: tensors.len(),
        elements: model.values().map(|tensor| tensor.values.len()).sum(),
        bytes: Bytes::new(bytes),
    })
}

/// The tensors of a file by name, each with the parameter that it is of. Those that the file stores as the model does are not
/// copied.
type InFile<'a> = BTreeMap<String, (&'a str, Cow<'a, HostTensor>)>;

/// The tensors of a model in a layout, or by its own names.
fn named<'a>(model: &'a Named<HostTensor>, layout: Option<&Layout>) -> Result<InFile<'a>, StateError> {
    let mut named = InFile::new();
    for (own, tensor) in model {
        let parts = match layout {
            Some(layout) => parts_of(tensor, &layout.parts(own, &tensor.shape)),
            None => vec![(own.clone(), Cow::Borrowed(tensor))],
        };
        let copies = layout.into_iter().flat_map(|layout| layout.copies(own));
        let copies = copies.map(|copy| (copy.to_owned(), Cow::Borrowed(tensor)));
        for (name, tensor) in copies.collect::<Vec<_>>().into_iter().chain(parts) {
            if let Some((first, _)) = named.insert(name.clone(), (own.as_str(), tensor)) {
                return Err(StateError::OneName { first: first.to_owned(), second: own.clone(), name });
            }
        }
    }
    Ok(named)
}

/// The tensors of a file that are a parameter.
fn parts_of<'a>(tensor: &'a HostTensor, parts: &[TensorPart]) -> Vec<(String, Cow<'a, HostTensor>)> {
    let mut rest = tensor.values.as_slice();
    let part = |part: &TensorPart| {
        let TensorPart { name, shape, form } = part;
        let (own, behind) = rest.split_at(part.elements().min(rest.len()));
        rest = behind;
        let tensor = match parts.len() == 1 && *form == TensorForm::Same {
            true => Cow::Borrowed(tensor),
            false => {
                Cow::Owned(HostTensor { shape: form.shape(shape), values: form.to_file(own.to_vec(), shape) })
            }
        };
        (name.clone(), tensor)
    };
    parts.iter().map(part).collect()
}

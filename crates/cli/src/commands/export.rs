//! `oomph export`: the weights of a checkpoint as a safetensors file.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use oomph_arguments::{CheckpointArguments, ConfigArguments, WeightsArguments};
use oomph_trainer::{
    Registry,
    export::{Exported, WeightLayout, export, export_weights},
    open,
};
use serde::Serialize;

use crate::{
    error::CliError,
    exit::Exit,
    notices::Notices,
    numbers::grouped,
    output::{self, AVERAGED, OverwriteArguments},
    table::pairs,
};

#[derive(Args, Debug)]
#[command(after_help = "\
In Python, `safetensors.torch.load_file` reads the file, and `load_state_dict` accepts the result.

Examples:
  oomph export runs/resnet --to resnet.safetensors
  oomph export runs/resnet/best --to best.safetensors
  oomph export --config transfer --weights resnet50.pth --to resnet50.safetensors")]
pub(crate) struct ExportArguments {
    #[command(flatten)]
    checkpoint: CheckpointArguments,
    /// The safetensors file to write
    #[arg(long, value_name = "FILE", value_parser = weights_file)]
    to: PathBuf,
    /// The names and shapes of the tensors
    #[arg(long, value_enum, default_value_t)]
    layout: LayoutName,
    #[command(flatten)]
    overwrite: OverwriteArguments,
    /// Use the weights of the last step, where the training kept an average of the weights (`train.ema`)
    #[arg(long, conflicts_with = "weights")]
    raw: bool,
    #[command(flatten)]
    weights: WeightsArguments,
    #[command(flatten)]
    config: ConfigArguments,
    /// Print one JSON line
    #[arg(long)]
    pub(crate) json: bool,
}

/// [`WeightLayout`] on the command line.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum LayoutName {
    /// Those of PyTorch and torchvision
    #[default]
    #[value(alias = "torchvision")]
    Pytorch,
    /// Those of oomph's checkpoints
    Oomph,
}

impl From<LayoutName> for WeightLayout {
    fn from(name: LayoutName) -> Self {
        match name {
            LayoutName::Pytorch => Self::Pytorch,
            LayoutName::Oomph => Self::Oomph,
        }
    }
}

/// Endings of other formats. A file of one format under the name of another is of no use to anybody.
const OTHER_FORMATS: [&str; 14] = [
    "bin", "ckpt", "gguf", "h5", "keras", "npy", "npz", "onnx", "pb", "pickle", "pkl", "pt", "pth", "tflite",
];

fn weights_file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    match OTHER_FORMATS.contains(&ending.as_str()) {
        true => {
            let name = path.with_extension("safetensors");
            Err(format!("oomph writes safetensors; did you mean `{}`?", name.display()))
        }
        false => Ok(path),
    }
}

pub(crate) fn run(arguments: &ExportArguments, registry: &Registry) -> Result<Exit, CliError> {
    arguments.overwrite.check([&arguments.to])?;
    let written = if let Some(weights) = &arguments.weights.weights {
        arguments.checkpoint.refuse_beside("--weights", weights)?;
        arguments.of_weights(registry)?
    } else {
        arguments.of_checkpoint(registry)?
    };
    output::show(arguments.json, &written, || written.report())
}

impl ExportArguments {
    fn of_weights(&self, registry: &Registry) -> Result<Written, CliError> {
        let session = open(self.config.load(&[self.weights.flag()])?, registry)?;
        let existing = self.overwrite.existing();
        let (exported, notices) = export_weights(&session, self.layout.into(), &self.to, existing)?;
        notices.iter().for_each(|notice| Notices::default().warning(notice));
        Ok(Written { exported, source: session.weights.unwrap_or_default(), step: None, averaged: false })
    }

    /// Opens neither data nor devices: the checkpoint has all names and values.
    fn of_checkpoint(&self, registry: &Registry) -> Result<Written, CliError> {
        let (config, found) = self.checkpoint.load(&self.config, &[])?;
        found.warnings().iter().for_each(|warning| Notices::default().warning(warning));
        let parts = registry.read(&config)?;
        let (layout, existing) = (self.layout.into(), self.overwrite.existing());
        let checkpoint = found.checkpoint.raw(self.raw);
        let exported = export(&parts.architecture, &checkpoint, layout, &self.to, existing)?;
        let (step, source) = (Some(checkpoint.progress().step), checkpoint.path().to_owned());
        Ok(Written { exported, source, step, averaged: checkpoint.has_average() })
    }
}

/// The export as JSON.
#[derive(Serialize)]
#[serde(tag = "event", rename = "done")]
struct Written {
    #[serde(flatten)]
    exported: Exported,
    /// The checkpoint or weights file it was made from.
    source: PathBuf,
    /// Optimizer steps of the checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<usize>,
    /// Whether the weights are averages over steps.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    averaged: bool,
}

impl Written {
    fn report(&self) -> String {
        let Self { exported: Exported { path, layout, tensors, elements, bytes }, source, step, averaged } =
            self;
        let layout = match layout {
            WeightLayout::Pytorch => "PyTorch",
            WeightLayout::Oomph => "oomph",
        };
        pairs([
            ("from", Some(source.display().to_string())),
            ("step", step.map(grouped)),
            ("weights", averaged.then(|| AVERAGED.to_owned())),
            ("written", Some(path.display().to_string())),
            ("layout", Some(layout.to_owned())),
            ("tensors", Some(grouped(*tensors))),
            ("values", Some(grouped(*elements))),
            ("size", Some(bytes.to_string())),
        ])
    }
}

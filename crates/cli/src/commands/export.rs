//! `oomph export`: the weights of a checkpoint as a safetensors file, its model as an ONNX file, or a folder for Hugging Face.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use oomph_arguments::{CheckpointArguments, ConfigArguments, ExportPath, WeightsArguments};
use oomph_trainer::{
    Registry,
    export::{
        Exported, FOLDER_CONFIG, FOLDER_WEIGHTS, WeightLayout, export, export_folder, export_folder_weights,
        export_weights,
    },
    onnx::{ExportedOnnx, export_onnx, export_onnx_weights},
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
A file that ends in `.onnx` has the whole model in evaluation mode, for ONNX Runtime and others.
A folder, as in `gpt/`, has the weights and a `config.json`: `from_pretrained` of Hugging Face's
`transformers` loads a `gpt` as GPT-2 or Llama and a `vit` as ViT.
Any other file has the weights as safetensors: in Python, `safetensors.torch.load_file` reads it,
and `load_state_dict` accepts the result.

Examples:
  oomph export runs/resnet --to resnet.safetensors
  oomph export runs/resnet/best --to best.safetensors
  oomph export runs/resnet --to resnet.onnx
  oomph export runs/gpt --to gpt/
  oomph export --config synthetic-resnet50 --weights resnet50.pth --to r50.safetensors")]
pub(crate) struct ExportArguments {
    #[command(flatten)]
    checkpoint: CheckpointArguments,
    /// The file to write: safetensors, or ONNX if it ends in `.onnx`; or a folder for Hugging Face, as in `gpt/`
    #[arg(long, value_name = "FILE", alias = "output", short_alias = 'o')]
    to: ExportPath,
    /// The names and shapes of the tensors of a safetensors file [default: pytorch]
    #[arg(long, value_enum)]
    layout: Option<LayoutName>,
    #[command(flatten)]
    overwrite: OverwriteArguments,
    /// Use the weights of the last step, where the training kept an average of the weights (`train.ema`, `train.swa`)
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
#[derive(Clone, Copy, Debug, ValueEnum)]
enum LayoutName {
    /// Those of PyTorch and torchvision
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

pub(crate) fn run(arguments: &ExportArguments, registry: &Registry) -> Result<Exit, CliError> {
    arguments.overwrite.check(&arguments.targets())?;
    let to = &arguments.to;
    if arguments.layout.is_some() && (to.is_onnx() || to.is_folder()) {
        return Err(CliError::LayoutOfOther { path: to.path().to_owned(), is_folder: to.is_folder() });
    }
    let written = if let Some(weights) = &arguments.weights.weights {
        let config = arguments.checkpoint.config_beside("--weights", weights, &arguments.config)?;
        arguments.of_weights(&config, registry)?
    } else {
        arguments.of_checkpoint(registry)?
    };
    output::show(arguments.json, &written, || written.report())
}

impl ExportArguments {
    /// What is written, as far as its folder is there.
    fn targets(&self) -> Vec<PathBuf> {
        let path = self.to.path();
        match path.is_dir() {
            true => [FOLDER_WEIGHTS, FOLDER_CONFIG].map(|name| path.join(name)).into(),
            false => vec![path.to_owned()],
        }
    }

    fn layout(&self) -> WeightLayout {
        self.layout.map_or_else(WeightLayout::default, WeightLayout::from)
    }

    fn of_weights(&self, config: &ConfigArguments, registry: &Registry) -> Result<Written, CliError> {
        let session = open(config.load(&[self.weights.flag()])?, registry)?;
        let (to, existing) = (self.to.path(), self.overwrite.existing());
        let (exported, notices) = if self.to.is_onnx() {
            let (exported, notices) = export_onnx_weights(&session, to, existing)?;
            (File::Onnx(exported), notices)
        } else if self.to.is_folder() {
            let (exported, notices) = export_folder_weights(&session, to, existing)?;
            (File::Weights(exported), notices)
        } else {
            let (exported, notices) = export_weights(&session, self.layout(), to, existing)?;
            (File::Weights(exported), notices)
        };
        notices.iter().for_each(|notice| Notices::default().warning(notice));
        Ok(Written { exported, source: session.weights.unwrap_or_default(), step: None, averaged: false })
    }

    /// Opens neither data nor devices: the checkpoint has all names and values.
    fn of_checkpoint(&self, registry: &Registry) -> Result<Written, CliError> {
        let (config, found) = self.checkpoint.load(&self.config, &[])?;
        found.warnings().iter().for_each(|warning| Notices::default().warning(warning));
        let architecture = registry.read(&config)?.architecture;
        let (to, existing) = (self.to.path(), self.overwrite.existing());
        let checkpoint = found.checkpoint.raw(self.raw);
        let exported = if self.to.is_onnx() {
            File::Onnx(export_onnx(&architecture, &checkpoint, to, existing)?)
        } else if self.to.is_folder() {
            File::Weights(export_folder(&config, &architecture, &checkpoint, to, existing)?)
        } else {
            File::Weights(export(&architecture, &checkpoint, self.layout(), to, existing)?)
        };
        let (step, source) = (Some(checkpoint.progress().step), checkpoint.path().to_owned());
        Ok(Written { exported, source, step, averaged: checkpoint.has_average() })
    }
}

/// The export as JSON.
#[derive(Serialize)]
#[serde(tag = "event", rename = "done")]
struct Written {
    #[serde(flatten)]
    exported: File,
    /// The checkpoint or weights file it was made from.
    source: PathBuf,
    /// Optimizer steps of the checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<usize>,
    /// Whether the weights are averages over steps.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    averaged: bool,
}

/// The file that was written.
#[derive(Serialize)]
#[serde(untagged)]
enum File {
    Weights(Exported),
    Onnx(ExportedOnnx),
}

impl Written {
    fn report(&self) -> String {
        let Self { exported, source, step, averaged } = self;
        let (path, elements, bytes) = match exported {
            File::Weights(Exported { path, elements, bytes, .. })
            | File::Onnx(ExportedOnnx { path, elements, bytes, .. }) => (path, elements, bytes),
        };
        let (layout, class, tensors, opset) = match exported {
            File::Weights(Exported { layout, class, tensors, .. }) => {
                (Some(*layout), *class, Some(*tensors), None)
            }
            File::Onnx(ExportedOnnx { opset, .. }) => (None, None, None, Some(*opset)),
        };
        let layout = layout.map(|layout| match layout {
            WeightLayout::Pytorch => "PyTorch".to_owned(),
            WeightLayout::HuggingFace => "Hugging Face".to_owned(),
            WeightLayout::Oomph => "oomph".to_owned(),
        });
        pairs([
            ("from", Some(source.display().to_string())),
            ("step", step.map(grouped)),
            ("weights", averaged.then(|| AVERAGED.to_owned())),
            ("written", Some(path.display().to_string())),
            ("layout", layout),
            ("class", class.map(str::to_owned)),
            ("operators", opset.map(|opset| format!("ONNX opset {opset}"))),
            ("tensors", tensors.map(grouped)),
            ("values", Some(grouped(*elements))),
            ("size", Some(bytes.to_string())),
        ])
    }
}

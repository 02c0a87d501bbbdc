use std::{fs, path::PathBuf};

use clap::{Args, ValueEnum};
use oomph_trainer::{
    Exported, Layout, Registry, RunDirectory, Session, export, export_weights, state::Checkpoint,
};
use serde::Serialize;

use crate::{
    configuration::{ConfigArguments, WeightsArguments},
    error::CliError,
    exit::Exit,
    notices::Notices,
    numbers::grouped,
    output,
    table::pairs,
};

#[derive(Args, Debug)]
#[command(after_help = "\
PyTorch reads the file with `safetensors.torch.load_file`; `load_state_dict` takes it as it is.

Examples:
  oomph export runs/resnet --to resnet.safetensors
  oomph export runs/resnet/checkpoints/best --to best.safetensors
  oomph export --config transfer --weights resnet50.pth --to resnet50.safetensors")]
pub(crate) struct ExportArguments {
    /// A checkpoint, or a run directory, whose newest one it is; its own config holds unless --config
    /// names another [default: the config's run directory]
    #[arg(value_name = "PATH", conflicts_with = "weights")]
    checkpoint: Option<PathBuf>,
    /// The safetensors file to write
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// How its tensors are called
    #[arg(long, value_enum, default_value_t)]
    layout: LayoutName,
    /// Write over a file that is there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    weights: WeightsArguments,
    #[command(flatten)]
    config: ConfigArguments,
    /// One JSON line on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// [`Layout`] on the command line.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum LayoutName {
    /// As PyTorch and torchvision call them
    #[default]
    #[value(alias = "torchvision")]
    Pytorch,
    /// As oomph's checkpoints call them
    Oomph,
}

impl From<LayoutName> for Layout {
    fn from(name: LayoutName) -> Self {
        match name {
            LayoutName::Pytorch => Self::Pytorch,
            LayoutName::Oomph => Self::Oomph,
        }
    }
}

pub(crate) fn run(arguments: &ExportArguments, registry: &Registry) -> Result<Exit, CliError> {
    arguments.check_target()?;
    let written = if arguments.weights.weights.is_some() {
        arguments.of_weights(registry)?
    } else {
        arguments.of_checkpoint(registry)?
    };
    if arguments.json {
        output::print_json(&written)?;
    } else {
        output::print(&written.report())?;
    }
    Ok(Exit::Success)
}

impl ExportArguments {
    /// Writing renames into place, which would put a file where a link, a pipe or a device is: only files are replaced,
    /// and only where that is asked for.
    fn check_target(&self) -> Result<(), CliError> {
        let path = self.to.clone();
        match fs::symlink_metadata(&path) {
            Ok(there) if !there.is_file() => Err(CliError::OutputExists { path }),
            Ok(_) if !self.force => Err(CliError::FileExists { path }),
            // A checkpoint knows the checksum of each of its files: with another it is lost.
            Ok(_) if path.with_file_name("state.json").is_file() => Err(CliError::OutputExists { path }),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn of_weights(&self, registry: &Registry) -> Result<Written, CliError> {
        let session = Session::open(self.config.load(&[self.weights.flag()])?, registry)?;
        let (exported, notices) = export_weights(&session, self.layout.into(), &self.to)?;
        notices.iter().for_each(|notice| Notices::default().warning(notice));
        Ok(Written { exported, source: session.weights.unwrap_or_default(), step: None })
    }

    /// Neither data nor device is opened: names and values are all in the checkpoint.
    fn of_checkpoint(&self, registry: &Registry) -> Result<Written, CliError> {
        let (config, found) = match &self.checkpoint {
            Some(path) => {
                let found = Checkpoint::find(path)?;
                (self.config.load_for(&found.checkpoint, &[])?, found)
            }
            None => {
                let config = self.config.load(&[])?;
                let run = config.run.directory.clone().unwrap_or_else(|| RunDirectory::last(config.name()));
                let found = CliError::of_run(Checkpoint::find(&run))?;
                (config, found)
            }
        };
        found.warnings().iter().for_each(|warning| Notices::default().warning(warning));
        let parts = registry.read(&config)?;
        let exported = export(&parts.architecture, &found.checkpoint, self.layout.into(), &self.to)?;
        let step = Some(found.checkpoint.progress().step);
        Ok(Written { exported, source: found.checkpoint.path().to_owned(), step })
    }
}

/// What `--json` says.
#[derive(Serialize)]
#[serde(tag = "event", rename = "done")]
struct Written {
    #[serde(flatten)]
    exported: Exported,
    /// The checkpoint or the file that it was made of.
    source: PathBuf,
    /// Optimizer steps of the checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<usize>,
}

impl Written {
    fn report(&self) -> String {
        let Self { exported: Exported { path, layout, tensors, elements, bytes }, source, step } = self;
        let layout = match layout {
            Layout::Pytorch => "PyTorch",
            Layout::Oomph => "oomph",
        };
        pairs([
            ("from", Some(source.display().to_string())),
            ("step", step.map(grouped)),
            ("written", Some(path.display().to_string())),
            ("names of", Some(layout.to_owned())),
            ("tensors", Some(grouped(*tensors))),
            ("values", Some(grouped(*elements))),
            ("size", Some(bytes.to_string())),
        ])
    }
}

use std::path::{Path, PathBuf};

use clap::Args;
use oomph_arguments::count;
use oomph_memory::gpu::GpuMemory;
use oomph_proposal::{Facts, Wishes};
use oomph_terminal::questions::Questions;

use crate::{error::CliError, output::OverwriteArguments};

#[derive(Args, Debug)]
#[command(after_help = "\
oomph recognises class folders of images (with or without `train` and `test`), a CSV table of images
and labels, IDX files, CIFAR-10's binary files, a CSV file of numbers, and text files. On a terminal
it asks for what the flags leave open.

Examples:
  oomph init photos                              writes photos.toml
  oomph init photos --gpu \"RTX 3060 12GB\" --to big.toml
  oomph init weather.csv --yes")]
pub(crate) struct InitArguments {
    /// The folder or file with the data [default: ask, or the working directory]
    #[arg(value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// The config file to write [default: the name of the data with `.toml`, here]
    #[arg(long, value_name = "FILE", alias = "output", short_alias = 'o')]
    to: Option<PathBuf>,
    /// The model (`model.name`) [default: one for the kind of data]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The side of images in pixels (`data.size`) [default: that of the images, at most 128, or 224
    /// with --gpu]
    #[arg(long, value_name = "N", value_parser = count(8..=8192))]
    size: Option<u32>,
    /// Epochs to train (`train.epochs`) [default: enough for about 1,000 steps, 10 to 100]
    #[arg(long, value_name = "N", value_parser = count(1..))]
    epochs: Option<u32>,
    /// Choose a batch that fits a GPU of this memory, as in `8GiB`, or of this name, as in `RTX 4090`
    /// [default: one that fits the memory of this machine]
    #[arg(long, value_name = "GPU")]
    gpu: Option<String>,
    /// Ask nothing
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    pub(super) overwrite: OverwriteArguments,
    /// Print one JSON object; asks nothing
    #[arg(long)]
    pub(crate) json: bool,
}

impl InitArguments {
    /// The GPU as typed.
    pub(super) fn gpu(&self) -> Option<&str> {
        self.gpu.as_deref()
    }

    /// Whether questions may be asked.
    pub(super) fn may_ask(&self) -> bool {
        !self.yes && !self.json
    }

    /// The path of the data.
    pub(super) fn path(&self, questions: Questions) -> Result<PathBuf, CliError> {
        match &self.data {
            Some(path) => Ok(path.clone()),
            None => asked(questions, "folder or file with the data", ".").map(PathBuf::from),
        }
    }

    /// The config file to write.
    pub(super) fn file(&self, data: &Path, questions: Questions) -> Result<PathBuf, CliError> {
        match &self.to {
            Some(file) => Ok(file.clone()),
            None => asked(questions, "config file to write", &default_file(data)).map(PathBuf::from),
        }
    }

    /// The model for data with these facts.
    pub(super) fn model(&self, facts: &Facts, questions: Questions) -> Result<String, CliError> {
        match &self.model {
            Some(model) => Ok(model.clone()),
            None => asked(questions, "model", facts.usual_model()),
        }
    }

    /// What the flags ask for.
    pub(super) fn wishes(&self) -> Result<Wishes, CliError> {
        Ok(Wishes {
            model: self.model.clone(),
            size: self.size.map(|size| size as usize),
            epochs: self.epochs.map(|epochs| epochs as usize),
            gpu: self.gpu.as_deref().map(GpuMemory::parse).transpose().map_err(CliError::Gpu)?,
        })
    }
}

/// The answer to a question; `default` where nobody answers.
fn asked(questions: Questions, question: &str, default: &str) -> Result<String, CliError> {
    questions.ask(question, default).map_err(CliError::Request)
}

/// `photos.toml` for `data/photos`, in the working directory.
fn default_file(data: &Path) -> String {
    let whole = data.canonicalize().unwrap_or_else(|_| data.to_owned());
    let stem = if whole.is_dir() { whole.file_name() } else { whole.file_stem() };
    let name = stem.map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let usual = |letter: char| if letter.is_alphanumeric() || "-_.".contains(letter) { letter } else { '-' };
    let name: String = name.chars().map(usual).collect();
    let name = name.trim_start_matches('.').trim_end_matches(".csv").trim_end_matches(".txt");
    format!("{}.toml", if name.is_empty() { "config" } else { name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_has_the_name_of_its_data() {
        for (data, file) in [
            ("nowhere/photos", "photos.toml"),
            ("nowhere/my photos", "my-photos.toml"),
            ("weather.csv", "weather.toml"),
            ("weather.csv.gz", "weather.toml"),
            ("/", "config.toml"),
        ] {
            assert_eq!(default_file(Path::new(data)), file);
        }
    }
}

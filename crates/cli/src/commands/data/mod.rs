//! `oomph data`: what a data source holds.

mod preview;

use std::path::PathBuf;

use clap::Args;
use oomph_arguments::{Flag, NamedConfigArguments, count};
use oomph_core::Split;
use oomph_survey::Survey;
use oomph_trainer::Registry;

use oomph_terminal::data::{Described, report};

use crate::{
    error::CliError,
    exit::Exit,
    notices::Notices,
    output::{self, OverwriteArguments},
};

#[derive(Args, Debug)]
#[command(after_help = "\
Every sample is read, as in a training. An unreadable one is counted, and ends nothing.

Examples:
  oomph data                                     the built-in digits
  oomph data --set data.source=folder --set data.path=photos
  oomph data mine.toml --read 1000               only a part of a large folder
  oomph data mine.toml --preview sheet.png       training images as the model sees them
  oomph data mine.toml --json")]
pub(crate) struct DataArguments {
    #[command(flatten)]
    config: NamedConfigArguments,
    /// Read at most N samples of each part, evenly spread [default: all]
    #[arg(long, value_name = "N", value_parser = count(1..))]
    read: Option<u32>,
    /// Draw a training image of each class as the model sees it, as it is and augmented by seven epochs
    #[arg(long, value_name = "FILE.png")]
    preview: Option<PathBuf>,
    #[command(flatten)]
    overwrite: OverwriteArguments,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &DataArguments, registry: &Registry) -> Result<Exit, CliError> {
    // Opening a source may read all its samples. One that cannot be read must not end a command that looks for such.
    let skip = Flag { name: "oomph data", key: "data.on_corrupt", value: Some("skip") };
    let config = arguments.config.named().load(&[skip])?;
    arguments.overwrite.check(&arguments.preview)?;
    let components = registry.read(&config)?;
    let source = components.open_source(&config)?;
    let write =
        |path: &PathBuf| preview::write(path, arguments.overwrite.existing(), &*source, config.train.seed);
    let preview = arguments.preview.as_ref().map(write).transpose()?;
    if preview.is_some() && components.loader.mix.is_on() {
        Notices::default().note("the preview shows images before `mixup` or `cutmix` mixes them in pairs");
    }
    let most = arguments.read.map(|most| most as usize);
    note_long_work(source.len(Split::Train) + source.len(Split::Test), most, source.image_reader().is_some());
    let survey = Survey::of(&*source, most);
    let described = Described::new(&config, &*source, &survey, preview);
    if !arguments.json {
        described.warnings.iter().for_each(|warning| Notices::default().warning(warning));
    }
    output::show(arguments.json, &described, || report(&described, &*source, &survey))
}

/// Says how to shorten work that takes more than some seconds.
fn note_long_work(samples: usize, most: Option<usize>, are_images: bool) {
    /// About half a minute of photos of 224×224 on two cores.
    const MANY: usize = 20_000;
    if are_images && most.is_none() && samples > MANY {
        Notices::default().note(format!(
            "reading {}; `--read 1000` reads a part",
            crate::numbers::plural(samples, "image")
        ));
    }
}

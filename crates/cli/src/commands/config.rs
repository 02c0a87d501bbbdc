//! `oomph config`: every key with its value and origin.

use clap::Args;
use oomph_arguments::NamedConfigArguments;
use oomph_trainer::Registry;

use crate::{error::CliError, exit::Exit, output};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  oomph config               every key of resnet.toml, defaults included
  oomph config --config lstm --set train.batch=8
  oomph config > mine.toml   a start for your own config file")]
pub(crate) struct ShowConfigArguments {
    #[command(flatten)]
    config: NamedConfigArguments,
    /// Print one JSON object: value, origin and accepted values of each key
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &ShowConfigArguments, registry: &Registry) -> Result<Exit, CliError> {
    let config = arguments.config.named().load(&[])?;
    // Reading registers the keys and defaults of the model and the data source with the configuration.
    registry.read(&config)?;
    output::show(arguments.json, &config.to_json(), || config.to_annotated_toml())
}

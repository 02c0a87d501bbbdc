use clap::Args;
use oomph_trainer::Registry;

use crate::{configuration::ConfigArguments, error::CliError, exit::Exit, output};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  oomph config                                   every key of resnet.toml, defaults included
  oomph config --config lstm --set train.batch=8
  oomph config > mine.toml                       a config file of your own to start from")]
pub(crate) struct ShowConfigArguments {
    #[command(flatten)]
    config: ConfigArguments,
    /// One JSON object: value, origin and meaning by key
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &ShowConfigArguments, registry: &Registry) -> Result<Exit, CliError> {
    let config = arguments.config.load(&[])?;
    // Model and data source know their keys and defaults; they are told to the configuration by reading.
    registry.read(&config)?;
    if arguments.json {
        output::print_json(&config.to_json())?;
    } else {
        output::print(&config.to_annotated_toml())?;
    }
    Ok(Exit::Success)
}

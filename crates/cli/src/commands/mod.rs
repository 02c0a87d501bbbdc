//! The commands, one module each: the arguments, and a function `run`.

pub(crate) mod calibrate;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod data;
pub(crate) mod devices;
pub(crate) mod doctor;
pub(crate) mod evaluate;
pub(crate) mod export;
pub(crate) mod find_batch;
pub(crate) mod find_lr;
pub(crate) mod init;
pub(crate) mod monitor;
pub(crate) mod plan;
pub(crate) mod predict;
pub(crate) mod profile;
pub(crate) mod runs;
pub(crate) mod summary;
pub(crate) mod tokenizer;
pub(crate) mod train;
pub(crate) mod tune;
pub(crate) mod verify_gpu;

use clap::CommandFactory as _;
use oomph_trainer::Registry;

use crate::{
    arguments::{Arguments, Command},
    error::CliError,
    exit::Exit,
    probe,
    progress::{DownloadBar, Style},
    ranks,
};

pub(crate) fn run(command: &Command, registry: &Registry) -> Result<Exit, CliError> {
    check_ranks(command)?;
    let downloads = DownloadBar::new(Style::choose(command.json(), command.quiet()));
    let registry = &registry.clone().with_open_observer(move |event| downloads.show(event));
    match command {
        Command::Train(arguments) => train::run(arguments, registry),
        Command::Evaluate(arguments) => evaluate::run(arguments, registry),
        Command::Predict(arguments) => predict::run(arguments, registry),
        Command::Runs(arguments) => runs::run(arguments),
        Command::Export(arguments) => export::run(arguments, registry),
        Command::FindBatch(arguments) => find_batch::run(arguments, registry),
        Command::FindLr(arguments) => find_lr::run(arguments, registry),
        Command::Plan(arguments) => plan::run(arguments, registry),
        Command::Profile(arguments) => profile::run(arguments, registry),
        Command::Calibrate(arguments) => calibrate::run(arguments),
        Command::Compare(arguments) => compare::run(arguments, registry),
        Command::Summary(arguments) => summary::run(arguments, registry),
        Command::Config(arguments) => config::run(arguments, registry),
        Command::Init(arguments) => init::run(arguments, registry),
        Command::Data(arguments) => data::run(arguments, registry),
        Command::Tokenizer(arguments) => tokenizer::run(arguments),
        Command::Devices(arguments) => devices::run(arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::VerifyGpu(arguments) => verify_gpu::run(arguments, registry),
        Command::Monitor(arguments) => monitor::run(arguments),
        Command::Completions(arguments) => completions::run(arguments, Arguments::command()),
        Command::Tune(arguments) => tune::run(arguments, registry),
        Command::Probe => probe::run(registry),
        Command::Trial => tune::trial::run(registry),
    }
}

/// Refuses commands that several processes of a launcher would each run alone.
fn check_ranks(command: &Command) -> Result<(), CliError> {
    match (ranks::several(), command) {
        (None, _) => Ok(()),
        (Some(_), Command::Train(_)) if cfg!(feature = "mpi") => Ok(()),
        (Some(world_size), Command::Train(_)) => Err(CliError::NoMpiInBuild { world_size }),
        (Some(world_size), _) => Err(CliError::OnlyTrain { world_size }),
    }
}

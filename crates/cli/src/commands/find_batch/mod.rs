//! `oomph find-batch`: the largest batch that fits, found by plans and tries in child processes.

mod arguments;
mod finder;
mod plans;
mod report;
mod row;
mod subject;

use std::path::PathBuf;

use oomph_config::{Config, ConfigFile, Value};
use oomph_trainer::{Registry, SessionError, device::find_device, open_to_plan};

pub(crate) use self::arguments::FindBatchArguments;
use self::finder::Finder;
use crate::{error::CliError, exit::Exit, failure, notices::Notices, output};

pub(crate) fn run(arguments: &FindBatchArguments, registry: &Registry) -> Result<Exit, CliError> {
    let session = open_to_plan(arguments.load()?, registry)?;
    if session.source.is_declared() {
        // Tries need the data itself: this tells why it cannot be opened.
        registry.read(&session.config)?.open_source(&session.config)?;
    }
    for device in &session.config.device.devices {
        find_device(*device).map_err(SessionError::from)?;
    }
    let file = arguments.write.then(|| arguments.config.named().file()).transpose()?;
    if let Some(file) = &file {
        // A file that cannot be written is an error before minutes of tries.
        file.check_writable()?;
    }
    let mut finder = Finder::new(arguments, &session)?;
    let stopped = finder.search()?;
    let mut report = finder.report();
    report.interrupted = stopped.is_some();
    let written = match (&file, report.values()) {
        (Some(file), Some(values)) if stopped.is_none() => write(file, &values, &session.config).map(Some),
        _ => Ok(None),
    };
    report.written = written.as_ref().ok().cloned().flatten();
    if arguments.json {
        output::print_json(&report)?;
    } else if !report.probes.is_empty() {
        output::print(&report.text())?;
    }
    if let Some(warning) = report.warning() {
        Notices::default().warning(warning);
    }
    match (stopped, written.err().or(finder.failure)) {
        (Some(exit), _) => Ok(exit),
        // The JSON object on stdout contains the error.
        (None, Some(error)) if arguments.json => {
            failure::report(&error, false);
            Ok(error.exit())
        }
        (None, Some(error)) => Err(error),
        (None, None) => Ok(Exit::Success),
    }
}

/// Writes the result into the config file, which is read again as it may have changed meanwhile.
///
/// A micro-batch as large as the batch is written only if the config sets a micro-batch.
fn write(file: &ConfigFile, values: &[(&'static str, Value)], config: &Config) -> Result<PathBuf, CliError> {
    let file = file.path().map_or_else(|| Ok(file.clone()), ConfigFile::read)?;
    let batch = values.first().map(|(_, batch)| batch.clone());
    let is_worth = |(key, value): &&(&'static str, Value)| {
        *key == "train.batch" || config.memory.micro_batch.is_some() || Some(value) != batch.as_ref()
    };
    Ok(file.write_values(&values.iter().filter(is_worth).cloned().collect::<Vec<_>>())?)
}

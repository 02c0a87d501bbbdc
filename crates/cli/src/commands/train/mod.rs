//! `oomph train`.

mod arguments;
#[cfg(feature = "mpi")]
mod ranks;
mod report;
mod restart;
mod seeds;

use oomph_runs::Adapted;
use oomph_trainer::{Registry, Session, Stop, open, train};

pub(crate) use self::arguments::TrainArguments;
use self::{
    report::{how_to_resume, report},
    restart::restart,
};
use crate::{
    error::CliError,
    exit::Exit,
    output,
    progress::{Progress, Style},
    signals,
};

pub(crate) fn run(arguments: &TrainArguments, registry: &Registry) -> Result<Exit, CliError> {
    if let Some(seeds) = &arguments.seeds {
        #[cfg(feature = "mpi")]
        if let Some(world_size) = crate::ranks::several() {
            return Err(CliError::SeedsOnRanks { world_size });
        }
        return seeds::run(arguments, seeds, registry);
    }
    #[cfg(feature = "mpi")]
    if let Some(world_size) = crate::ranks::several() {
        return ranks::run(arguments, registry, world_size);
    }
    let (session, adapted) = arguments.adapted(open(arguments.load()?, registry)?)?;
    lead(arguments, &session, adapted)
}

/// Trains and shows the progress: the only process, or rank 0.
fn lead(arguments: &TrainArguments, session: &Session, adapted: Option<Adapted>) -> Result<Exit, CliError> {
    let stop = Stop::new();
    let style = Style::choose(arguments.json, arguments.quiet);
    let mut progress = Progress::new(style, &stop);
    let is_verbose = style.is_verbose();
    signals::listen(&stop, is_verbose.then(|| progress.notices()))?;
    let trained = train(session, &arguments.options(session, adapted)?, &mut progress, &stop);
    let notices = progress.finish().map_err(CliError::EventsUnread)?;
    let done = match trained {
        Err(error) if stop.reason().is_none() => {
            return Err(restart(arguments, &session.config, error));
        }
        trained => trained?,
    };
    if is_verbose {
        notices.line("");
        output::print(&report(&done, session))?;
        if let Some(line) = how_to_resume(&done) {
            notices.line(line);
        }
    }
    Ok(done.ended.into())
}

//! `oomph train`.

mod arguments;
mod lead;
#[cfg(feature = "mpi")]
mod ranks;
mod report;
mod restart;

use oomph_trainer::{Registry, open};

pub(crate) use self::arguments::TrainArguments;
use self::lead::lead;
use crate::{error::CliError, exit::Exit};

pub(crate) fn run(arguments: &TrainArguments, registry: &Registry) -> Result<Exit, CliError> {
    #[cfg(feature = "mpi")]
    if let Some(world_size) = crate::ranks::several() {
        return ranks::run(arguments, registry, world_size);
    }
    let (session, adapted) = arguments.adapted(open(arguments.load()?, registry)?)?;
    lead(arguments, &session, adapted)
}

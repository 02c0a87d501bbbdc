//! The processes that a launcher of MPI programs started, mpirun or srun: what they say, and what they may do.

use oomph_parallel::group::launched_world_size;
#[cfg(feature = "mpi")]
use oomph_parallel::group::{Group, mpi_group};

use crate::{arguments::Command, error::CliError};

/// How long ranks wait for each other before a configuration says it: its default.
#[cfg(feature = "mpi")]
pub(crate) const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(600);

/// How many there are, where there are several.
pub(crate) fn several() -> Option<usize> {
    launched_world_size().filter(|world_size| *world_size > 1)
}

/// Refuses what several processes would each do alone.
pub(crate) fn check(command: &Command) -> Result<(), CliError> {
    match (several(), command) {
        (None, _) => Ok(()),
        (Some(_), Command::Train(_)) if cfg!(feature = "mpi") => Ok(()),
        (Some(world_size), Command::Train(_)) => Err(CliError::NoMpiInBuild { world_size }),
        (Some(world_size), _) => Err(CliError::OnlyTrain { world_size }),
    }
}

/// Says what every rank is about to say: on rank 0 alone, and before any of them ends, since the launcher ends the others
/// with the first that fails.
pub(crate) fn once(say: impl FnOnce()) {
    #[cfg(feature = "mpi")]
    let group = several().and_then(|_| mpi_group(Some(TIMEOUT)).ok());
    #[cfg(feature = "mpi")]
    if group.as_ref().is_some_and(|group| group.rank() > 0) {
        return;
    }
    say();
}

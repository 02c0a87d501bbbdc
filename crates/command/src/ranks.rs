//! The processes that an MPI launcher started, such as mpirun or srun.

use oomph_parallel::group::launched_world_size;
#[cfg(feature = "mpi")]
use oomph_parallel::group::{Group, mpi_group};

/// How long ranks wait for each other until the configuration is read: the default of `device.timeout`.
#[cfg(feature = "mpi")]
pub const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(600);

/// The number of processes, if there are several.
pub fn several() -> Option<usize> {
    launched_world_size().filter(|world_size| *world_size > 1)
}

/// Prints a message that all ranks have, on rank 0 alone.
///
/// Rank 0 prints before any rank exits: the launcher ends all ranks once the first one fails.
pub fn once(print: impl FnOnce()) {
    #[cfg(feature = "mpi")]
    let group = several().and_then(|_| mpi_group(Some(TIMEOUT)).ok());
    #[cfg(feature = "mpi")]
    if group.as_ref().is_some_and(|group| group.rank() > 0) {
        return;
    }
    print();
}

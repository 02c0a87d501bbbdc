//! Groups of ranks that train together, and their collectives.
//!
//! Every rank runs the same program and holds its end of a [`Group`]. All ranks start the same collectives in the same
//! order.
//!
//! | group | ranks are | extra memory of an all-reduce |
//! |---|---|---|
//! | [`Alone`] | this process | nothing |
//! | [`threads`] | threads of this process | nothing: sums overwrite the values |
//! | `MpiGroup` (feature `mpi`) | processes, on any machines | up to 16 MiB a rank, and the buffers of the MPI library |
//!
//! A collective takes values by move and returns their sums in the same memory.
//!
//! ```
//! use oomph_parallel::group::{Group, threads};
//!
//! let ranks: Vec<_> = threads(2, None)?
//!     .into_iter()
//!     .map(|group| {
//!         std::thread::spawn(move || {
//!             let gradient = vec![group.rank() as f32 + 1.0; 4];
//!             let pending = group.start_all_reduce(gradient);
//!             // … continue backward …
//!             pending.wait().map(|sums| sums.values)
//!         })
//!     })
//!     .collect();
//! for rank in ranks {
//!     assert_eq!(rank.join().unwrap()?, [3.0; 4]);
//! }
//! # Ok::<(), oomph_parallel::group::GroupError>(())
//! ```

mod agree;
mod collectives;
mod error;
mod given;
mod launch;
#[cfg(feature = "mpi")]
mod mpi;
mod pending;
mod sum;
mod threads;
pub(crate) mod wire;

pub use agree::{Refusal, agree};
pub use collectives::{Alone, Group};
pub use error::{Exchange, GroupError, Member, Operation};
pub use launch::launched_world_size;
#[cfg(feature = "mpi")]
pub use mpi::{MpiGroup, mpi_group};
pub use pending::{Arrived, Gathered, Pending};
pub use threads::{ThreadGroup, threads};

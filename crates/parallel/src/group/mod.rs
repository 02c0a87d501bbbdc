//! Groups of ranks that train together, and what they do together.
//!
//! Every rank runs the same program and holds its end of a [`Group`]. A collective is met by all ranks: the first that
//! one starts is the first of every other, and so on.
//!
//! | group | ranks are | held beside the values of an all-reduce |
//! |---|---|---|
//! | [`Alone`] | this process | nothing |
//! | [`threads`] | threads of this process | nothing: sums are written over the values |
//! | `MpiGroup` (feature `mpi`) | processes, on any machines | up to 16 MiB a rank, and what the MPI library itself takes |
//!
//! Values are moved into a collective and their sums come back in the same memory.
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
//!             // … goes on with backward …
//!             pending.wait().map(|reduced| reduced.values)
//!         })
//!     })
//!     .collect();
//! for rank in ranks {
//!     assert_eq!(rank.join().unwrap()?, [3.0; 4]);
//! }
//! # Ok::<(), oomph_parallel::group::GroupError>(())
//! ```

mod agree;
mod alone;
mod error;
mod launch;
#[cfg(feature = "mpi")]
mod mpi;
mod pending;
mod sum;
mod threads;

use std::fmt;

pub use agree::{Refusal, agree};
pub use alone::Alone;
pub use error::{Exchange, GroupError, Member, Operation};
pub use launch::launched_world_size;
#[cfg(feature = "mpi")]
pub use mpi::{MpiGroup, mpi_group};
pub use pending::{Pending, Reduced};
pub use threads::{ThreadGroup, threads};

/// One rank's end of a group.
///
/// Sums are made value by value in the order of ranks, `((first + second) + third) + …`, by every implementation: all
/// ranks get the same bits, and threads get the same as processes.
///
/// A group that failed stays failed: what is under way and what is started later has the same [`GroupError`]. A rank
/// that drops its end leaves; ranks that still need it then get [`GroupError::Gone`]. One that is dropped by a panic
/// takes the others with it, as [`abort`](Self::abort) does.
pub trait Group: fmt::Debug + Send + Sync {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn world_size(&self) -> usize;

    /// Starts to sum `values` over all ranks and returns at once. It goes on by itself, whatever this thread does.
    /// Any number may be under way; they are matched with those of other ranks by the order of starting.
    fn start_all_reduce(&self, values: Vec<f32>) -> Pending;

    /// What the other collectives are made of: every rank gives bytes and gets those of all, in the order of ranks.
    /// Nothing is held beside what is given and what is got.
    ///
    /// # Errors
    /// See [`GroupError`].
    fn exchange(&self, what: Exchange, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>, GroupError>;

    /// Makes all that other ranks have under way, and all they start later, fail with an error that names this rank and
    /// `reason`. They go on running: what they do with the error is theirs.
    fn abort(&self, reason: &str);

    /// The sum of `values` over all ranks.
    ///
    /// # Errors
    /// See [`GroupError`].
    fn all_reduce(&self, values: Vec<f32>) -> Result<Vec<f32>, GroupError> {
        self.start_all_reduce(values).wait().map(|reduced| reduced.values)
    }

    /// The sum of a few `values` over all ranks, such as losses and counts. Each rank holds the values of all.
    ///
    /// # Errors
    /// See [`GroupError`].
    fn all_reduce_f64(&self, values: &[f64]) -> Result<Vec<f64>, GroupError> {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let gathered = self.exchange(Exchange::AllReduce { length: values.len() }, bytes)?;
        let mut ranks = gathered.iter().map(|bytes| {
            let (values, _) = bytes.as_chunks();
            values.iter().map(|value| f64::from_le_bytes(*value))
        });
        let mut sums: Vec<f64> = ranks.next().into_iter().flatten().collect();
        for rank in ranks {
            sums.iter_mut().zip(rank).for_each(|(sum, value)| *sum += value);
        }
        Ok(sums)
    }

    /// The bytes of all ranks, in their order. They may be of different lengths.
    ///
    /// # Errors
    /// See [`GroupError`].
    fn all_gather(&self, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>, GroupError> {
        self.exchange(Exchange::AllGather, bytes)
    }

    /// The bytes of rank `root`. What other ranks give is dropped.
    ///
    /// # Errors
    /// Where there is no such rank; see [`GroupError`].
    fn broadcast(&self, root: usize, bytes: Vec<u8>) -> Result<Vec<u8>, GroupError> {
        let world_size = self.world_size();
        if root >= world_size {
            return Err(GroupError::NoSuchRank { root, world_size });
        }
        let bytes = if self.rank() == root { bytes } else { Vec::new() };
        Ok(self.exchange(Exchange::Broadcast { root }, bytes)?.swap_remove(root))
    }

    /// Waits until every rank is here.
    ///
    /// # Errors
    /// See [`GroupError`].
    fn barrier(&self) -> Result<(), GroupError> {
        self.exchange(Exchange::Barrier, Vec::new()).map(drop)
    }
}

use std::{fmt, sync::Arc};

use super::{Exchange, Gathered, GroupError, Pending};

/// One rank's end of a group.
///
/// Every implementation sums each value in the order of ranks, `((first + second) + third) + …`. All ranks get the same
/// bits, from threads as from processes.
///
/// A group that failed stays failed: pending and later collectives return the same [`GroupError`]. A rank that drops its
/// end leaves; ranks that still need it get [`GroupError::Gone`]. An end that a panic drops fails the others too, like
/// [`abort`](Self::abort).
pub trait Group: fmt::Debug + Send + Sync {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn world_size(&self) -> usize;

    /// Starts to sum `values` over all ranks and returns at once. The sum proceeds in the background. Any number may be
    /// pending; ranks match them by the order of starting.
    fn start_all_reduce(&self, values: Vec<f32>) -> Pending;

    /// Starts to sum `values` over all ranks and returns at once. Each rank receives the sums of its own share: rank r those from
    /// `ends[r - 1]` to `ends[r]`, in the memory of the values. All ranks give equally many values, and the same `ends`, one for each rank in order.
    ///
    /// # Panics
    /// Panics if `ends` are not one for each rank in ascending order, or the last is not the number of values.
    fn start_reduce_scatter(&self, values: Vec<f32>, ends: &[usize]) -> Pending;

    /// Starts to give the `values` of every rank to all ranks and returns at once. Their numbers may differ.
    fn start_all_gather(&self, values: Vec<f32>) -> Pending<Gathered>;

    /// The primitive of the other collectives: every rank gives bytes and gets the bytes of all, in the order of ranks.
    /// It takes no memory beyond the bytes given and received.
    ///
    /// # Errors
    /// See [`GroupError`].
    fn exchange(&self, what: Exchange, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>, GroupError>;

    /// Fails all pending and later collectives of the other ranks with an error that names this rank and `reason`. The
    /// ranks themselves keep running and handle the error.
    fn abort(&self, reason: &str);

    /// The sum of `values` over all ranks.
    ///
    /// # Errors
    /// See [`GroupError`].
    fn all_reduce(&self, values: Vec<f32>) -> Result<Vec<f32>, GroupError> {
        self.start_all_reduce(values).wait().map(|sums| sums.values)
    }

    /// The sum of a few `values` over all ranks, such as losses and counts. Each rank receives the values of all.
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

    /// The bytes of all ranks, in the order of ranks. Their lengths may differ.
    ///
    /// # Errors
    /// See [`GroupError`].
    fn all_gather(&self, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>, GroupError> {
        self.exchange(Exchange::AllGather, bytes)
    }

    /// The bytes of rank `root`. The bytes of other ranks are ignored.
    ///
    /// # Errors
    /// A `root` that is not a rank; see [`GroupError`].
    fn broadcast(&self, root: usize, bytes: Vec<u8>) -> Result<Vec<u8>, GroupError> {
        let world_size = self.world_size();
        if root >= world_size {
            return Err(GroupError::NoSuchRank { root, world_size });
        }
        let bytes = if self.rank() == root { bytes } else { Vec::new() };
        Ok(self.exchange(Exchange::Broadcast { root }, bytes)?.swap_remove(root))
    }

    /// Waits for all ranks.
    ///
    /// # Errors
    /// See [`GroupError`].
    fn barrier(&self) -> Result<(), GroupError> {
        self.exchange(Exchange::Barrier, Vec::new()).map(drop)
    }
}

/// # Panics
/// Panics if `ends` are not those of a reduce-scatter of `length` values.
pub(super) fn check_ends(ends: &[usize], world_size: usize, length: usize) {
    let fits = ends.len() == world_size && ends.is_sorted() && ends.last() == Some(&length);
    assert!(fits, "the shares of {world_size} ranks end at {ends:?} of {length} values");
}

/// A group of one rank: sums are the values themselves.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Group for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn world_size(&self) -> usize {
        1
    }

    fn start_all_reduce(&self, values: Vec<f32>) -> Pending {
        Pending::ready(values)
    }

    fn start_reduce_scatter(&self, values: Vec<f32>, ends: &[usize]) -> Pending {
        check_ends(ends, 1, values.len());
        Pending::ready(values)
    }

    fn start_all_gather(&self, values: Vec<f32>) -> Pending<Gathered> {
        Pending::ready(Arc::new([values]))
    }

    fn exchange(&self, _: Exchange, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>, GroupError> {
        Ok(vec![bytes])
    }

    fn abort(&self, _: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rank_gets_back_what_it_gives() -> Result<(), GroupError> {
        assert_eq!(Alone.all_reduce(vec![1.5, -0.0])?, [1.5, -0.0]);
        assert_eq!(Alone.start_reduce_scatter(vec![1.5, -0.0], &[2]).wait()?.values, [1.5, -0.0]);
        assert_eq!(*Alone.start_all_gather(vec![2.0]).wait()?.values, [vec![2.0]]);
        assert_eq!(Alone.all_reduce_f64(&[2.5])?, [2.5]);
        assert_eq!(Alone.all_gather(vec![1, 2])?, [[1, 2]]);
        assert_eq!(Alone.broadcast(0, vec![3])?, [3]);
        Alone.barrier()
    }
}

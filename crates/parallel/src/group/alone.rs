use super::{Exchange, Group, GroupError, Pending};

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
        assert_eq!(Alone.all_reduce_f64(&[2.5])?, [2.5]);
        assert_eq!(Alone.all_gather(vec![1, 2])?, [[1, 2]]);
        assert_eq!(Alone.broadcast(0, vec![3])?, [3]);
        Alone.barrier()
    }
}

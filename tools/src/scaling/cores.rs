//! Cores that share the tasks of a region.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

/// How long `cores` take for tasks in their order, where each core takes the next one as soon as it is free: list scheduling (Graham 1969,
/// <https://doi.org/10.1137/0117039>).
pub(super) fn makespan(tasks: &[Duration], cores: usize) -> Duration {
    let mut free: BinaryHeap<_> =
        (0..cores.min(tasks.len()).max(1)).map(|_| Reverse(Duration::ZERO)).collect();
    let mut end = Duration::ZERO;
    for task in tasks {
        let Some(Reverse(begin)) = free.pop() else { break };
        end = end.max(begin + *task);
        free.push(Reverse(begin + *task));
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(cores: usize, tasks: &[u64]) -> u64 {
        let tasks: Vec<_> = tasks.iter().map(|task| Duration::from_millis(*task)).collect();
        makespan(&tasks, cores).as_millis() as u64
    }

    #[test]
    fn a_core_takes_the_next_task_once_it_is_free() {
        assert_eq!(on(1, &[3, 1, 2]), 6);
        assert_eq!(on(2, &[3, 1, 2]), 3);
        assert_eq!(on(2, &[1, 1, 4]), 5);
        assert_eq!(on(8, &[1, 4, 2]), 4);
        assert_eq!(on(3, &[]), 0);
    }
}

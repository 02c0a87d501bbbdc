//! The order of summation of all groups.

use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
};

/// Values that fit the innermost cache beside the parts that they are summed from.
const BLOCK: usize = 1024;
/// Values that one thread takes at a time: 512 KiB of each part.
const TASK: usize = 128 << 10;
/// Tasks per extra thread. One thread takes about a millisecond for them; starting a thread takes up to that on busy
/// cores.
const TASKS_A_THREAD: usize = 8;

/// Sums equally long parts, one per rank, as `((first + second) + third) + …` for each place. The sums overwrite the
/// parts in `into`.
pub(super) fn sum(parts: &mut [&mut [f32]], into: Range<usize>) {
    let length = parts.first().map_or(0, |part| part.len());
    let mut sums = [0.0; BLOCK];
    for start in (0..length).step_by(BLOCK) {
        let block = start..length.min(start + BLOCK);
        let sums = &mut sums[..block.len()];
        sums.copy_from_slice(&parts[0][block.clone()]);
        for part in &parts[1..] {
            for (sum, value) in sums.iter_mut().zip(&part[block.clone()]) {
                *sum += value;
            }
        }
        for part in &mut parts[into.clone()] {
            part[block.clone()].copy_from_slice(sums);
        }
    }
}

/// [`sum`] into all parts, by this thread and for large sums by others, up to `threads`.
pub(super) fn sum_by_threads(parts: &mut [Vec<f32>], threads: usize) {
    let all = 0..parts.len();
    let mut tasks = Vec::new();
    push_tasks(&mut tasks, parts.iter_mut().map(Vec::as_mut_slice), &all);
    work_off(tasks, threads);
}

/// [`sum`] of the share of each part into that part, which keeps nothing else. Shares end at `ends`, in the order of parts. It works
/// by this thread and for large sums by others, up to `threads`.
pub(super) fn scatter_by_threads(parts: &mut [Vec<f32>], ends: &[usize], threads: usize) {
    let starts = || std::iter::once(0).chain(ends.iter().copied());
    let mut tasks = Vec::new();
    let mut rests: Vec<&mut [f32]> = parts.iter_mut().map(Vec::as_mut_slice).collect();
    for (part, (start, end)) in starts().zip(ends).enumerate() {
        let shares = rests.iter_mut().map(|rest| rest.split_off_mut(..end - start).unwrap_or_default());
        push_tasks(&mut tasks, shares, &(part..part + 1));
    }
    work_off(tasks, threads);
    for (part, (start, end)) in parts.iter_mut().zip(starts().zip(ends)) {
        part.copy_within(start..*end, 0);
        part.truncate(end - start);
    }
}

/// A piece of all parts, whose sum goes into some of them.
struct Task<'a> {
    pieces: Vec<&'a mut [f32]>,
    into: Range<usize>,
}

/// Adds the tasks of equally long parts.
fn push_tasks<'a>(
    tasks: &mut Vec<Task<'a>>,
    parts: impl Iterator<Item = &'a mut [f32]>,
    into: &Range<usize>,
) {
    let first = tasks.len();
    for part in parts {
        for (index, piece) in part.chunks_mut(TASK).enumerate() {
            if tasks.len() == first + index {
                tasks.push(Task { pieces: Vec::new(), into: into.clone() });
            }
            tasks[first + index].pieces.push(piece);
        }
    }
}

/// Does all tasks, with this thread and up to `threads - 1` others.
fn work_off(tasks: Vec<Task<'_>>, threads: usize) {
    let helpers = threads.saturating_sub(1).min(tasks.len() / TASKS_A_THREAD);
    let tasks = Mutex::new(tasks);
    let work = || {
        loop {
            let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(Task { mut pieces, into }) = task else { break };
            sum(&mut pieces, into);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            // If the system refuses a thread, this one does its work.
            _ = std::thread::Builder::new().name("oomph-sum".into()).spawn_scoped(scope, work);
        }
        work();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_ranks_decides_the_bits() {
        // Rounding loses the 1 if it is added to 2²⁴, and keeps it if it is added last.
        let (large, one) = (16_777_216.0_f32, 1.0_f32);
        let of = |mut parts: [Vec<f32>; 3]| {
            sum_by_threads(&mut parts, 2);
            parts[2][0]
        };
        assert_eq!(of([vec![large], vec![one], vec![-large]]), 0.0);
        assert_eq!(of([vec![large], vec![-large], vec![one]]), 1.0);
    }

    #[test]
    fn shares_are_those_of_the_whole_sum() {
        let parts = || -> Vec<Vec<f32>> {
            (1..4)
                .map(|rank| (0..2 * TASK + 77).map(|place| (place as f32).sin() * rank as f32).collect())
                .collect()
        };
        let (mut whole, mut shares) = (parts(), parts());
        sum_by_threads(&mut whole, 1);
        let ends = [TASK + 5, TASK + 5, 2 * TASK + 77];
        scatter_by_threads(&mut shares, &ends, 2);
        assert_eq!(shares[0], whole[0][..TASK + 5]);
        assert!(shares[1].is_empty());
        assert_eq!(shares[2], whole[0][TASK + 5..]);
    }

    #[test]
    fn many_threads_sum_as_one_does() {
        let parts = || -> Vec<Vec<f32>> {
            (1..4)
                .map(|rank| {
                    (0..2 * TASKS_A_THREAD * TASK + 77)
                        .map(|place| (place as f32).sin() * rank as f32)
                        .collect()
                })
                .collect()
        };
        let (mut by_one, mut by_three) = (parts(), parts());
        sum_by_threads(&mut by_one, 1);
        sum_by_threads(&mut by_three, 3);
        assert_eq!(by_one, by_three);
        assert_eq!(by_one[0][5], (5_f32.sin() + 5_f32.sin() * 2.0) + 5_f32.sin() * 3.0);
    }
}

//! Tasks that threads of the pool take one by one: one whose core is slower does fewer.

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

/// Does all `tasks`, each with a workspace of `of_each` elements for itself, in which anything can stand: as many at
/// once as there are workspaces.
///
/// # Panics
/// Panics if there are tasks and no workspace: what is made must not be taken for written.
pub(super) fn each<T>(
    tasks: impl Iterator<Item = T> + Send,
    workspaces: &mut [f32],
    of_each: usize,
    work: impl Fn(T, &mut [f32]) + Sync,
) {
    let workspaces = workspaces.par_chunks_exact_mut(of_each.max(1));
    share(tasks, workspaces, |task, workspace| work(task, workspace));
}

/// Does all of so many `tasks`.
pub(super) fn all<T>(count: usize, tasks: impl Iterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    let threads = (0..count.min(rayon::current_num_threads())).into_par_iter();
    share(tasks, threads, |task, _| work(task));
}

/// Does all `tasks`, as many at once as there are workspaces.
fn share<T, W>(
    tasks: impl Iterator<Item = T> + Send,
    workspaces: impl ParallelIterator<Item = W>,
    work: impl Fn(T, &mut W) + Sync,
) {
    let tasks = Mutex::new(tasks);
    let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
    workspaces.for_each(|mut workspace| {
        while let Some(task) = next() {
            work(task, &mut workspace);
        }
    });
    assert!(next().is_none(), "every task is done");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_done_once() {
        for count in [0, 1, 2, 3, 100] {
            let mut done = vec![0; count];
            all(count, done.iter_mut(), |done| *done += 1);
            each(done.iter_mut(), &mut [0.0; 6], 2, |done, workspace| {
                assert_eq!(workspace.len(), 2);
                *done += 1;
            });
            assert_eq!(done, vec![2; count]);
        }
    }

    #[test]
    #[should_panic(expected = "every task is done")]
    fn tasks_without_a_workspace_are_noticed() {
        each(0..2, &mut [], 2, |_, _| ());
    }
}

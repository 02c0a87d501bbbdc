//! Tasks that threads of the pool take one by one: one whose core is slower does fewer.

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use super::Workspace;

/// Does all `tasks`, each within a workspace, in which anything can stand: as many at once as it has room for. Threads make
/// their own, so that it lies in the cache of the core that uses it.
///
/// # Panics
/// Panics if there are tasks and the workspace is of none: what is made must not be taken for written.
pub(super) fn each<T>(
    tasks: impl Iterator<Item = T> + Send,
    workspace: Workspace,
    work: impl Fn(T, &mut [f32]) + Sync,
) {
    let threads = (0..workspace.tasks.min(rayon::current_num_threads())).into_par_iter();
    let workspaces = threads.map(|_| vec![0.0; workspace.of_each]);
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
            let workspace = Workspace { of_each: 2, tasks: count, ..Workspace::default() };
            each(done.iter_mut(), workspace, |done, workspace| {
                assert_eq!(workspace.len(), 2);
                *done += 1;
            });
            assert_eq!(done, vec![2; count]);
        }
    }

    #[test]
    #[should_panic(expected = "every task is done")]
    fn tasks_without_a_workspace_are_noticed() {
        each(0..2, Workspace::default(), |_, _| ());
    }
}

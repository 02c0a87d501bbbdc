//! Tasks that the threads of the pool take one by one, so that a thread on a slower core takes fewer.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use rayon::prelude::*;

use crate::{custom_op::Workspace, timing, uninit::left_over};

/// Runs all `tasks`, at most [`Workspace::tasks`] at once. Each thread allocates its own workspace, so that it lies in the
/// cache of its core; any numbers stand in it, such as those of the thread's previous task.
///
/// No workspace is freed before the last task is done. So as many are in use at once as a plan says, whether or not a thread
/// wakes in time to do a task.
///
/// # Panics
/// Panics if there are tasks and the workspace allows none: their outputs would stay unwritten.
pub(crate) fn each<T>(
    tasks: impl Iterator<Item = T> + Send,
    workspace: Workspace,
    work: impl Fn(T, &mut [f32]) + Sync,
) {
    let threads = (0..workspace.tasks.min(threads())).into_par_iter();
    let workspaces = threads.map(|_| left_over(workspace.of_each));
    let used: Vec<_> = share(tasks, workspaces, |task, workspace| work(task, workspace));
    drop(used);
}

/// Runs all `tasks`, which are `count`.
pub(crate) fn all<T>(count: usize, tasks: impl Iterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    let threads = (0..count.min(threads())).into_par_iter();
    // Nothing is to be kept: a list of `()` takes no memory.
    let _: Vec<()> = share(tasks, threads.map(|_| ()), |task, ()| work(task));
}

/// Does `work` for each item in all threads. The library divides the items evenly, and threads that are done take from others.
pub(crate) fn for_each<I: IndexedParallelIterator>(items: I, work: impl Fn(I::Item) + Sync) {
    map(items, &work).for_each(drop);
}

/// What `work` makes of each item, in all threads.
pub(crate) fn map<I: IndexedParallelIterator, R: Send>(
    items: I,
    work: impl Fn(I::Item) -> R + Send + Sync,
) -> impl IndexedParallelIterator<Item = R> {
    timing::begin_region();
    items.map(move |item| timing::task(|| work(item)))
}

/// The threads that work is divided for: those of the pool, unless [`timed_for`](crate::timed_for) says otherwise.
pub(crate) fn threads() -> usize {
    timing::assumed_threads().unwrap_or_else(rayon::current_num_threads).max(1)
}

/// Runs all `tasks`, one per workspace at a time, and returns the workspaces.
fn share<T, W: Send>(
    tasks: impl Iterator<Item = T> + Send,
    workspaces: impl ParallelIterator<Item = W>,
    work: impl Fn(T, &mut W) + Sync,
) -> Vec<W> {
    timing::begin_region();
    let tasks = Mutex::new(tasks);
    let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
    let at_work = AtomicUsize::new(0);
    let used = workspaces.map(|mut workspace| {
        at_work.fetch_add(1, Relaxed);
        while let Some(task) = next() {
            timing::task(|| work(task, &mut workspace));
        }
        at_work.fetch_sub(1, Relaxed);
        wait_for(&at_work);
        workspace
    });
    let used = used.collect();
    assert!(next().is_none(), "every task is done");
    used
}

/// Waits until no thread is at work, for a while: the library's threads soon sleep where they wait for another one, and take longer to
/// wake than that one's last task takes.
fn wait_for(at_work: &AtomicUsize) {
    /// What it takes to sleep and to wake, a few times.
    const PATIENCE: Duration = Duration::from_micros(200);
    let begun = Instant::now();
    while at_work.load(Relaxed) > 0 && begun.elapsed() < PATIENCE {
        // Other threads of the program may wait for this core.
        thread::yield_now();
    }
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

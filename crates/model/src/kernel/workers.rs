//! Tasks that need a workspace: as many at once as there are workspaces.

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

/// Does all `tasks`, each with a workspace of `of_each` elements for itself, in which anything can stand.
pub(super) fn each<T>(
    tasks: impl Iterator<Item = T> + Send,
    workspaces: &mut [f32],
    of_each: usize,
    work: impl Fn(T, &mut [f32]) + Sync,
) {
    let tasks = Mutex::new(tasks);
    let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
    workspaces.par_chunks_exact_mut(of_each.max(1)).for_each(|workspace| {
        while let Some(task) = next() {
            work(task, workspace);
        }
    });
}

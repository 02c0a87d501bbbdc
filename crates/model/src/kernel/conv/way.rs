//! What the ways to compute a convolution, forward or back to the input, have in common: weights are put into tiles, and
//! then tasks compute rows of some images of the target.

use std::mem::MaybeUninit;

use oomph_core::{Account, charge};
use rayon::prelude::*;

use super::product::{Product, Task};
use crate::kernel::{
    Workspace,
    room::{self, Part},
    rows::Value,
    tile::Tile,
    vector::{Loops, vectorised},
    workers,
};

/// A way to compute it.
pub(super) trait Way: Sync {
    fn product(&self) -> &Product;

    fn tile(&self) -> Tile;

    /// Images of a task.
    fn images(&self) -> usize;

    /// Rows of a task at least, about, and at most.
    fn rows(&self) -> [usize; 2];

    /// Elements of the weights in tiles.
    fn weight_elements(&self) -> usize;

    /// Elements of a task's workspace.
    fn elements_of_task(&self) -> usize;

    /// Whether tasks write every pixel of the target: others are zero.
    fn is_complete(&self) -> bool;

    /// How each tile of weights is filled: all tiles are all of `room`.
    fn tiles<'a, E: Value>(&'a self, weights: &'a [E], room: Part<'a>) -> Vec<impl Loops + Send>;

    /// Writes the rows of a task, by weights in tiles.
    fn compute<E: Value>(&self, weights: &[f32], source: &[E], task: Task<'_, E>, workspace: &mut [f32]);

    fn workspace(&self) -> Workspace {
        let Product { batch, rows, .. } = *self.product();
        Workspace {
            shared: self.weight_elements(),
            of_each: self.elements_of_task(),
            tasks: batch.div_ceil(self.images()) * rows.div_ceil(self.tile().rows),
        }
    }

    /// Writes the target.
    fn run<E: Value>(&self, weights: &[E], source: &[E], target: &mut [MaybeUninit<E>]) {
        if !self.is_complete() {
            target.par_iter_mut().for_each(|element| {
                element.write(E::ZERO);
            });
        }
        let count = self.weight_elements();
        let room = Vec::with_capacity(count);
        // Within the pool, so that its threads are waited for once.
        rayon::scope(|_| {
            let (packed, ()) = room::made_in(room, count, |room| {
                let tiles = charge(Account::Host, || self.tiles(weights, room));
                workers::all(tiles.len(), tiles.into_iter(), vectorised);
            });
            let rows = self.product().rows_of_a_task(self.tile(), self.images(), self.rows());
            let tasks = charge(Account::Host, || self.product().tasks(self.images(), rows, target));
            workers::each(tasks.into_iter(), self.workspace(), |task, workspace| {
                self.compute(&packed, source, task, workspace);
            });
        });
    }
}

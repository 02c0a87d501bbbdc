//! The frame that both algorithms of a convolution share, forward or back to the input: weights are put into tiles, and then
//! each task computes rows of some images of the target.

use std::mem::MaybeUninit;

use oomph_core::{Account, charge};
use rayon::prelude::*;

use super::product::{ConvProduct, ConvTask};
use crate::{
    custom_op::Workspace,
    simd::{SimdLoops, vectorised},
    stored_float::StoredFloat,
    tile::Tile,
    uninit::{self, UninitSlice},
    workers,
};

/// An algorithm that computes a convolution forward or back to the input.
pub(super) trait ConvAlgorithm: Sync {
    fn product(&self) -> &ConvProduct;

    fn tile(&self) -> Tile;

    /// Images of a task.
    fn images(&self) -> usize;

    /// Rows of a task: about the least, and the most.
    fn rows(&self) -> [usize; 2];

    /// Elements of the weights in tiles.
    fn weight_elements(&self) -> usize;

    /// Elements of a task's workspace.
    fn elements_of_task(&self) -> usize;

    /// Whether tasks write every pixel of the target; else the others are zero.
    fn is_complete(&self) -> bool;

    /// The loops that fill the tiles of weights: together they write all of `memory`.
    fn tiles<'a, E: StoredFloat>(
        &'a self,
        weights: &'a [E],
        memory: UninitSlice<'a>,
    ) -> Vec<impl SimdLoops + Send>;

    /// Writes the rows of a task, by weights in tiles. To be inlined: these are the loops of [`SimdLoops`].
    fn compute<E: StoredFloat>(
        &self,
        weights: &[f32],
        source: &[E],
        task: &mut ConvTask<'_, E>,
        workspace: &mut [f32],
    );

    fn workspace(&self) -> Workspace {
        let ConvProduct { batch, rows, .. } = *self.product();
        Workspace {
            shared: self.weight_elements(),
            of_each: self.elements_of_task(),
            tasks: batch.div_ceil(self.images()) * rows.div_ceil(self.tile().rows),
        }
    }

    /// Writes the target.
    fn run<E: StoredFloat>(&self, weights: &[E], source: &[E], target: &mut [MaybeUninit<E>]) {
        if !self.is_complete() {
            target.par_iter_mut().for_each(|element| {
                element.write(E::ZERO);
            });
        }
        let count = self.weight_elements();
        let memory = Vec::with_capacity(count);
        // Inside the pool, so that the calling thread waits for it once.
        rayon::scope(|_| {
            let (packed, ()) = uninit::made_in(memory, count, |memory| {
                let tiles = charge(Account::Host, || self.tiles(weights, memory));
                workers::all(tiles.len(), tiles.into_iter(), vectorised);
            });
            let rows = self.product().rows_of_a_task(self.tile(), self.images(), self.rows());
            let tasks = charge(Account::Host, || self.product().tasks(self.images(), rows, target));
            workers::each(tasks.into_iter(), self.workspace(), |mut task, workspace| {
                let (weights, task) = (&packed, &mut task);
                vectorised(TaskLoops { algorithm: self, weights, source, task, workspace });
            });
        });
    }
}

/// The loops of a task.
struct TaskLoops<'a, 'b, A: ?Sized, E> {
    algorithm: &'a A,
    weights: &'a [f32],
    source: &'a [E],
    task: &'a mut ConvTask<'b, E>,
    workspace: &'a mut [f32],
}

impl<A: ConvAlgorithm + ?Sized, E: StoredFloat> SimdLoops for TaskLoops<'_, '_, A, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        self.algorithm.compute(self.weights, self.source, self.task, self.workspace);
    }
}

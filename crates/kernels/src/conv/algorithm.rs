//! The frame that the algorithms of a convolution share, forward or back to the input: weights are packed, and then
//! each task computes rows of some images of the target.

use std::mem::MaybeUninit;

use burn_flex::FlexTensor;
use oomph_core::{Account, charge};
use rayon::prelude::*;

use super::{
    finish::Finishing,
    product::{ConvProduct, ConvTask},
};
use crate::{
    custom_op::Workspace,
    simd::{SimdLoops, vectorised},
    stored_float::StoredFloat,
    tile::Tile,
    workers,
};

/// The sizes of a convolution and its tasks.
pub(super) struct ConvFrame {
    pub(super) product: ConvProduct,
    pub(super) tile: Tile,
    /// Images of a task.
    pub(super) images: usize,
    /// Rows of a task: about the least, and the most.
    pub(super) rows: [usize; 2],
    /// Elements of 32 bits that take as much memory as the packed weights.
    pub(super) weight_elements: usize,
    /// Elements of a task's workspace.
    pub(super) elements_of_task: usize,
    /// Whether tasks write every pixel of the target; else the others are zero.
    pub(super) is_complete: bool,
}

/// An algorithm that computes a convolution of such elements, forward or back to the input.
pub(super) trait ConvAlgorithm<E: StoredFloat>: Sync {
    /// What packed weights consist of.
    type Weight: Send + Sync;

    fn frame(&self) -> ConvFrame;

    /// Packs weights into `memory`, which has room for them. They have the format of the elements, or 32 bits where the
    /// algorithm rounds what it packs.
    fn pack(&self, weights: &FlexTensor, memory: Vec<Self::Weight>) -> Vec<Self::Weight>;

    /// Writes the rows of a task, by packed weights. To be inlined: these are the loops of [`SimdLoops`].
    fn compute(
        &self,
        weights: &[Self::Weight],
        source: &[E],
        task: &mut ConvTask<'_, E>,
        workspace: &mut [f32],
    );

    fn workspace(&self) -> Workspace {
        let ConvFrame { product, tile, images, weight_elements, elements_of_task, .. } = self.frame();
        Workspace {
            shared: weight_elements,
            of_each: elements_of_task,
            tasks: product.batch.div_ceil(images) * product.rows.div_ceil(tile.rows),
            ..Workspace::default()
        }
    }

    /// Writes the target. With `finishing` it is that of a forward convolution.
    fn run(
        &self,
        source: &[E],
        weights: &FlexTensor,
        target: &mut [MaybeUninit<E>],
        finishing: Option<&Finishing<'_, E>>,
    ) {
        let ConvFrame { product, tile, images, rows, weight_elements, is_complete, .. } = self.frame();
        if !is_complete {
            target.par_iter_mut().for_each(|element| {
                element.write(E::ZERO);
            });
        }
        let memory = Vec::with_capacity(weight_elements * size_of::<f32>() / size_of::<Self::Weight>());
        // Inside the pool, so that the calling thread waits for it once.
        rayon::scope(|_| {
            let packed = self.pack(weights, memory);
            let rows = product.rows_of_a_task(tile, images, rows);
            let tasks = charge(Account::Host, || product.tasks(images, rows, target, finishing));
            workers::each(tasks.into_iter(), self.workspace(), |mut task, workspace| {
                let (weights, task) = (&packed, &mut task);
                vectorised(TaskLoops { algorithm: self, weights, source, task, workspace });
            });
        });
    }
}

/// Runs the loops that fill tiles of weights, in all threads.
pub(super) fn fill_tiles<T: SimdLoops + Send>(tiles: impl FnOnce() -> Vec<T>) {
    let tiles = charge(Account::Host, tiles);
    workers::all(tiles.len(), tiles.into_iter(), vectorised);
}

/// The loops of a task.
struct TaskLoops<'a, 'b, A: ConvAlgorithm<E> + ?Sized, E: StoredFloat> {
    algorithm: &'a A,
    weights: &'a [A::Weight],
    source: &'a [E],
    task: &'a mut ConvTask<'b, E>,
    workspace: &'a mut [f32],
}

impl<A: ConvAlgorithm<E> + ?Sized, E: StoredFloat> SimdLoops for TaskLoops<'_, '_, A, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        self.algorithm.compute(self.weights, self.source, self.task, self.workspace);
    }
}

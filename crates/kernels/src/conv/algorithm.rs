//! The frame that the algorithms of a convolution share, forward or back to the input: weights are packed, and then
//! each task computes rows of some images of the target.

use std::{mem::MaybeUninit, ops::Range};

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

/// The most elements of packed weights, if an algorithm can pack some rows at a time: 8 MiB. A task has at most 256 rows, and those of
/// 512 channels take so much by Winograd's algorithm, so no task becomes smaller.
const PACKED: usize = 2 << 20;

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

    /// The algorithm for some rows alone, whose weights it packs by themselves: for it the first of them is row 0. `None` if it packs
    /// all weights together.
    fn of_rows(&self, _rows: Range<usize>) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

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

    /// Rows whose weights are packed at once.
    fn packed_rows(&self) -> usize {
        let ConvFrame { product, tile, weight_elements, .. } = self.frame();
        tile.padded_rows(product.rows.div_ceil(weight_elements.div_ceil(PACKED).max(1))).max(1)
    }

    fn workspace(&self) -> Workspace
    where
        Self: Sized,
    {
        let ConvFrame { product, tile, images, weight_elements, elements_of_task, .. } = self.frame();
        let part = self.of_rows(0..self.packed_rows().min(product.rows));
        Workspace {
            shared: part.map_or(weight_elements, |part| part.frame().weight_elements),
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
    ) where
        Self: Sized,
    {
        let ConvFrame { product, is_complete, .. } = self.frame();
        if !is_complete {
            const TASK: usize = 16 << 10;
            workers::for_each(target.par_chunks_mut(TASK), |pixels| pixels.fill(MaybeUninit::new(E::ZERO)));
        }
        // Inside the pool, so that the calling thread waits for it once.
        rayon::scope(|_| {
            let at_once = self.packed_rows();
            for first in (0..product.rows).step_by(at_once) {
                let rows = first..product.rows.min(first + at_once);
                match self.of_rows(rows.clone()) {
                    Some(part) => part.run_rows(source, weights, product, rows, target, finishing),
                    None => {
                        return self.run_rows(source, weights, product, 0..product.rows, target, finishing);
                    }
                }
            }
        });
    }

    /// Writes `rows` of the target of a product, which are all those of this algorithm.
    fn run_rows(
        &self,
        source: &[E],
        weights: &FlexTensor,
        product: ConvProduct,
        rows: Range<usize>,
        target: &mut [MaybeUninit<E>],
        finishing: Option<&Finishing<'_, E>>,
    ) where
        Self: Sized,
    {
        let ConvFrame { tile, images, rows: of_task, weight_elements, .. } = self.frame();
        let memory = Vec::with_capacity(weight_elements * size_of::<f32>() / size_of::<Self::Weight>());
        let packed = self.pack(weights, memory);
        let of_task = product.rows_of_a_task(tile, images, of_task);
        let tasks = charge(Account::Host, || product.tasks(images, rows, of_task, target, finishing));
        workers::each(tasks.into_iter(), self.workspace(), |mut task, workspace| {
            let (weights, task) = (&packed, &mut task);
            vectorised(TaskLoops { algorithm: self, weights, source, task, workspace });
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

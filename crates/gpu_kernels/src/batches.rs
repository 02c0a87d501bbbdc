//! Many tensors in few launches: the cubes of a launch have one tensor after the other.

use burn_backend::DType;
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::launch::{THREADS, cubes, length, vector_width};

/// Tensors of a launch, at most. On CUDA the arguments of a kernel have 4 KiB: for each tensor of Adam, with indices of 64 bits,
/// four addresses, four lengths and two numbers of 8 bytes each.
const AT_ONCE: usize = 48;

/// Tensors of a launch on the device of `like`, at most, where each has `buffers` and all together have `others` besides. Vulkan's
/// drivers limit the buffers of a kernel: Metal to 31.
pub(crate) fn at_once<R: CubeRuntime>(like: &CubeTensor<R>, buffers: usize, others: usize) -> usize {
    let most = like.client.properties().hardware.max_bindings as usize;
    (most.saturating_sub(others) / buffers).clamp(1, AT_ONCE)
}

/// What tensors of a launch have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    /// Whether they have buffers that others lack.
    pub(crate) has_state: bool,
    /// Elements that are read at once.
    pub(crate) width: usize,
}

impl Kind {
    /// The kind of a tensor.
    ///
    /// # Panics
    /// Panics if it is not of 32-bit floats.
    pub(crate) fn of<R: CubeRuntime>(tensor: &CubeTensor<R>, has_state: bool) -> Self {
        assert_eq!(tensor.dtype, DType::F32, "kernels for many tensors take 32-bit floats");
        // 1 or 4: other widths would only make more launches.
        let width = if vector_width(length(tensor), &[DType::F32]) == 4 { 4 } else { 1 };
        Self { has_state, width }
    }
}

/// The tensors of a launch: at least one.
pub(crate) struct Batch<'a, T> {
    pub(crate) kind: Kind,
    pub(crate) tensors: Vec<&'a T>,
}

/// The tensors in batches of one kind, of `at_once` at most. Batches of a kind have about the same number of tensors, since each
/// number is a kernel to compile.
pub(crate) fn batches<T>(tensors: &[T], at_once: usize, kind: impl Fn(&T) -> Kind) -> Vec<Batch<'_, T>> {
    let mut sorted: Vec<&T> = tensors.iter().collect();
    sorted.sort_by_key(|one| kind(one));
    let of_one_kind = sorted.chunk_by(|one, next| kind(one) == kind(next));
    let batches = of_one_kind.flat_map(|tensors| {
        let launches = tensors.len().div_ceil(at_once);
        tensors.chunks(tensors.len().div_ceil(launches))
    });
    batches.map(|tensors| Batch { kind: kind(tensors[0]), tensors: tensors.to_vec() }).collect()
}

/// Where a tensor is in the grid.
#[derive(Clone, Copy)]
pub(crate) struct GridPlace {
    pub(crate) first_cube: usize,
    pub(crate) vectors: usize,
}

/// The grid of a launch.
pub(crate) struct Grid {
    /// Of each tensor, in order.
    pub(crate) places: Vec<GridPlace>,
    pub(crate) cubes: usize,
}

impl<T> Batch<'_, T> {
    /// The grid where each thread has `of_thread` vectors of the tensor that `tensor` gives.
    pub(crate) fn grid<R: CubeRuntime>(
        &self,
        of_thread: usize,
        tensor: impl Fn(&T) -> &CubeTensor<R>,
    ) -> Grid {
        let mut cubes = 0;
        let places = self.tensors.iter().map(|one| {
            let vectors = length(tensor(one)) / self.kind.width;
            let place = GridPlace { first_cube: cubes, vectors };
            cubes += vectors.div_ceil(of_thread * THREADS as usize);
            place
        });
        Grid { places: places.collect(), cubes }
    }
}

impl Grid {
    /// The grid as an argument of a launch. It may have cubes behind the last tensor's.
    pub(crate) fn count<R: CubeRuntime>(&self, like: &CubeTensor<R>) -> CubeCount {
        cubes(like, self.cubes * THREADS as usize)
    }
}

/// The thread's vector of a tensor whose cubes begin at `first_cube`, where each thread has one.
#[cube]
pub(crate) fn position(first_cube: usize) -> usize {
    (CUBE_POS - first_cube) * CUBE_DIM as usize + UNIT_POS as usize
}

//! What the launches of our kernels have in common: vectors, grids and outputs.

use burn_backend::{DType, TensorMetadata, cubecl::dtype_to_storage_type};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{calculate_cube_count_elemwise, ir::ElemType, prelude::*};

/// Threads of a cube.
pub(crate) const THREADS: u32 = 256;

/// Bytes that a thread reads at once.
const VECTOR_BYTES: usize = 16;

/// Elements that are read at once: as many as fit into 16 bytes of each format and divide `length`.
pub(crate) fn vector_width(length: usize, formats: &[DType]) -> usize {
    let size = formats.iter().map(DType::size).max().unwrap_or(VECTOR_BYTES);
    let mut width = VECTOR_BYTES / size;
    while !length.is_multiple_of(width) {
        width /= 2;
    }
    width
}

/// The format as CubeCL names it.
pub(crate) fn element(tensor: &CubeTensor<impl CubeRuntime>) -> ElemType {
    dtype_to_storage_type(tensor.dtype)
}

/// Elements of a tensor.
pub(crate) fn length(tensor: &CubeTensor<impl CubeRuntime>) -> usize {
    tensor.shape().num_elements()
}

/// The width of indices into all `tensors`.
pub(crate) fn addresses<R: CubeRuntime>(tensors: &[&CubeTensor<R>]) -> AddressType {
    tensors.iter().map(|tensor| tensor.required_address_type()).max().unwrap_or_default()
}

/// The size of a cube of [`THREADS`].
pub(crate) fn cube() -> CubeDim {
    CubeDim::new_1d(THREADS)
}

/// Enough cubes for `threads` threads.
pub(crate) fn cubes<R: CubeRuntime>(like: &CubeTensor<R>, threads: usize) -> CubeCount {
    calculate_cube_count_elemwise(&like.client, threads, cube())
}

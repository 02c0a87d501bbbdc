//! What the launches of our kernels have in common: vectors, grids and outputs.

use burn_backend::{DType, TensorMetadata, cubecl::dtype_to_storage_type};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{calculate_cube_count_elemwise, ir::ElemType, prelude::*};

use crate::{
    channel_sums::elements_at_once,
    tensor::{contiguous, empty},
};

pub(crate) use crate::channel_sums::THREADS;

/// Elements that are read at once: as many as fit into 16 bytes of each format and divide `length`.
pub(crate) fn vector_width(length: usize, formats: &[DType]) -> usize {
    elements_at_once(length, formats.iter().map(DType::size).max().unwrap_or(1))
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

/// What an element by element kernel writes.
pub(crate) struct Output<R: CubeRuntime> {
    pub(crate) tensor: CubeTensor<R>,
    pub(crate) argument: BufferArg<R>,
}

impl<R: CubeRuntime> Output<R> {
    /// An output like `input`, which is the kernel's first buffer: in place, if the format is the same and nobody else holds
    /// the input.
    pub(crate) fn over(input: &CubeTensor<R>, dtype: DType) -> Self {
        if input.dtype == dtype && input.can_mut() {
            return Self { argument: BufferArg::alias(0, length(input)), tensor: input.clone() };
        }
        let sizes = input.shape();
        let tensor = empty(input, sizes.as_slice(), dtype);
        Self { argument: tensor.clone().into_buffer_arg(), tensor }
    }
}

/// The tensor as contiguous memory that nobody else holds: itself or a copy.
pub(crate) fn owned<R: CubeRuntime>(tensor: CubeTensor<R>) -> CubeTensor<R> {
    let tensor = contiguous(tensor);
    if tensor.can_mut() { tensor } else { crate::cast::copied(&tensor) }
}

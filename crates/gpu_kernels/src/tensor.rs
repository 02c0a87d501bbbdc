//! Tensors of a GPU, contiguous and without padded rows.

use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};

/// The runtime of the CUDA backend.
pub type GpuRuntime = cubecl::cuda::CudaRuntime;

/// A tensor of the CUDA backend.
pub type GpuTensor = CubeTensor<GpuRuntime>;

/// An uninitialised tensor beside `like`. Its rows are not padded, as those of Burn's operations may be.
pub(crate) fn empty<R: CubeRuntime>(like: &CubeTensor<R>, shape: &[usize], dtype: DType) -> CubeTensor<R> {
    let shape = Shape::from(shape.to_vec());
    let handle = like.client.empty(shape.num_elements() * dtype.size());
    CubeTensor::new_contiguous(like.client.clone(), like.device.clone(), shape, handle, dtype)
}

/// The tensor as contiguous rows without padding. Padded, permuted and broadcast tensors are copied, in one launch.
pub fn contiguous<R: CubeRuntime>(tensor: CubeTensor<R>) -> CubeTensor<R> {
    into_contiguous(tensor)
}

/// The sizes of a tensor's dimensions.
pub(crate) fn sizes<R: CubeRuntime, const D: usize>(tensor: &CubeTensor<R>) -> [usize; D] {
    tensor.shape().dims()
}

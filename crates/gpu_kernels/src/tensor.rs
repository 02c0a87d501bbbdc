//! Tensors of a GPU, contiguous and without padded rows.

use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};

#[cfg(all(feature = "cuda", feature = "vulkan"))]
compile_error!("a build has one GPU backend: `cuda` or `vulkan`");

/// The backend of this build's GPUs.
#[cfg(feature = "cuda")]
pub type Gpu = burn_cuda::Cuda;

/// The backend of this build's GPUs: shaders in WGSL, for any driver.
#[cfg(all(feature = "vulkan", not(feature = "cuda")))]
pub type Gpu = burn_wgpu::WebGpu;

/// The runtime of this build's GPUs.
#[cfg(feature = "cuda")]
pub type GpuRuntime = cubecl::cuda::CudaRuntime;

/// The runtime of this build's GPUs.
#[cfg(all(feature = "vulkan", not(feature = "cuda")))]
pub type GpuRuntime = cubecl::wgpu::WgpuRuntime<cubecl::wgpu::WgslCompiler>;

/// A tensor on a GPU.
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

//! What of CUDA is missing or wrong: the driver's library, NVRTC, the toolkit's headers, NCCL.

#[cfg(any(feature = "cuda", test))]
mod judged;
#[cfg(any(feature = "cuda", test))]
mod toolkit;

use std::path::Path;

use oomph_memory::health::Check;

#[cfg(feature = "cuda")]
pub(crate) use self::judged::{Compiler, Driver, Nccl};

/// Whether this build includes CUDA.
pub const HAS_CUDA: bool = cfg!(feature = "cuda");

/// Looks for what Burn will load and read when it uses a GPU. Nothing is kept loaded. In a build without CUDA there is
/// nothing to look for.
///
/// `cuda_path` is what the variable CUDA_PATH says, `several` whether more than one GPU is to be used.
#[cfg(feature = "cuda")]
pub fn installation(cuda_path: Option<&Path>, several: bool) -> Vec<Check> {
    let driver = crate::cuda::driver(oomph_config::DeviceName::Cuda(0));
    let compiler = crate::cuda::compiler();
    vec![
        judged::driver(&driver),
        judged::compiler(compiler.as_ref(), driver.as_ref().ok()),
        toolkit::toolkit(Path::new("/"), cuda_path),
        judged::nccl(&crate::cuda::nccl(), several),
    ]
}

/// Looks for what Burn will load and read when it uses a GPU. Nothing is kept loaded. In a build without CUDA there is
/// nothing to look for.
///
/// `cuda_path` is what the variable CUDA_PATH says, `several` whether more than one GPU is to be used.
#[cfg(not(feature = "cuda"))]
pub fn installation(_cuda_path: Option<&Path>, _several: bool) -> Vec<Check> {
    Vec::new()
}

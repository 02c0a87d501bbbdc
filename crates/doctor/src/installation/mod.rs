//! Checks of the CUDA libraries: the driver's library, NVRTC, the headers of the toolkit, NCCL.

mod libraries;
mod toolkit;

use std::path::Path;

use crate::check::Check;

pub use libraries::{CudaDriver, CudaLibraries, Nccl, Nvrtc};

/// Checks the libraries and headers that Burn loads and reads when it uses a GPU.
///
/// `cuda_path` is the value of the variable CUDA_PATH. `several` says whether more than one GPU is to be used.
pub fn installation(found: &CudaLibraries, cuda_path: Option<&Path>, several: bool) -> Vec<Check> {
    vec![
        libraries::driver(&found.driver),
        libraries::nvrtc(found.nvrtc.as_ref(), found.driver.as_ref().ok()),
        toolkit::toolkit(Path::new("/"), cuda_path),
        libraries::nccl(&found.nccl, several),
    ]
}

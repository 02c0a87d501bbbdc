//! Compiled kernels that outlive the process.

use std::path::PathBuf;

use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig, cache::CacheConfig};

/// Keeps compiled kernels in `folder`, so that later runs of the same program load them instead of compiling them: NVIDIA's
/// compiler takes about 0.1 s for a kernel, and a training has dozens.
///
/// It must be called before a device is opened; later calls do nothing. A `cubecl.toml` or `burn.toml` that names another
/// place keeps it, and so do CubeCL's environment variables.
pub fn keep_compiled_kernels(folder: PathBuf) {
    let mut config = CubeClRuntimeConfig::from_current_dir().override_from_env();
    config.compilation.cache = true;
    if matches!(config.environment.path, CacheConfig::Target) {
        config.environment.path = CacheConfig::Directory(folder);
    }
    // Whoever set the configuration before has decided already.
    let _ = CubeClRuntimeConfig::try_set(config);
}

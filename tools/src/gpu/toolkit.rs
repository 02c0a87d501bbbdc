//! NVIDIA's run-time compiler and the headers that kernels include, from PyPI. They need no GPU.

use std::{
    error::Error,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

/// The packages, in versions that were used together.
const PACKAGES: [&str; 4] = [
    "nvidia-cuda-nvrtc-cu12==12.9.86",
    "nvidia-cuda-runtime-cu12==12.9.79",
    "nvidia-cuda-nvcc-cu12==12.9.86",
    "nvidia-cuda-cccl-cu12==12.9.27",
];

/// The compiler's library.
pub(super) const COMPILER: &str = "libnvrtc.so.12";

/// The folder of the compiler's libraries. Installs it into `folder`, unless a run before did.
pub(super) fn installed(folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let compiler = folder.join("nvidia/cuda_nvrtc/lib");
    let is_complete = folder.join("complete");
    if is_complete.exists() {
        return Ok(compiler);
    }
    eprintln!("installing NVIDIA's run-time compiler from PyPI into `{}`", folder.display());
    fs::create_dir_all(folder)?;
    let status = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade", "--target"])
        .arg(folder)
        .args(PACKAGES)
        .status()
        .map_err(|error| format!("python3 does not start: {error}"))?;
    if !status.success() {
        return Err("pip cannot install NVIDIA's compiler: see its message above".into());
    }
    link_headers(folder)?;
    fs::write(is_complete, "")?;
    Ok(compiler)
}

/// Links the headers of all packages into one folder, as a CUDA toolkit has them.
fn link_headers(folder: &Path) -> Result<(), Box<dyn Error>> {
    let include = folder.join("cuda/include");
    // Left by a run that was stopped.
    let _ = fs::remove_dir_all(&include);
    fs::create_dir_all(&include)?;
    for package in ["cuda_runtime", "cuda_nvcc"] {
        for entry in fs::read_dir(folder.join("nvidia").join(package).join("include"))? {
            let entry = entry?;
            if !entry.file_name().to_string_lossy().starts_with("__") {
                symlink(entry.path(), include.join(entry.file_name()))?;
            }
        }
    }
    symlink(folder.join("nvidia/cuda_cccl/include"), include.join("cccl"))?;
    Ok(())
}

//! Checks of the CUDA libraries: the driver's library, NVRTC, the headers of the toolkit, NCCL.

use std::path::{Path, PathBuf};

use crate::{check::Check, explain::explain};

/// The CUDA libraries of this machine, as found by whoever loads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaLibraries {
    /// The driver's library, or why it does not work.
    pub driver: Result<CudaDriver, String>,
    /// NVRTC, which compiles kernels; `None` if it cannot be loaded.
    pub nvrtc: Option<Nvrtc>,
    /// NCCL, which exchanges data between GPUs.
    pub nccl: Nccl,
}

/// The driver's library, `libcuda`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaDriver {
    /// The newest CUDA version that it supports.
    pub version: (i32, i32),
    /// The compute capability of each GPU, as `(9, 0)`.
    pub capabilities: Vec<(i32, i32)>,
}

/// The run-time compiler of kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nvrtc {
    /// The name it was found under.
    pub file: &'static str,
    /// Its CUDA version, if it reports one.
    pub version: Option<(i32, i32)>,
    /// The compute capabilities that it compiles for, as 90 for 9.0; empty if unknown.
    pub architectures: Vec<i32>,
}

/// Whether NCCL, the collective library, can be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nccl {
    /// Under a name that Burn's loader tries.
    Found {
        /// The name.
        file: &'static str,
    },
    /// Under another name.
    OtherName {
        /// The name.
        file: &'static str,
    },
    /// Not at all.
    Missing,
}

/// Checks the libraries and headers that Burn loads and reads when it uses a GPU.
///
/// `cuda_path` is the value of the variable CUDA_PATH. `several` says whether more than one GPU is to be used.
pub fn installation(found: &CudaLibraries, cuda_path: Option<&Path>, several: bool) -> Vec<Check> {
    vec![
        driver(&found.driver),
        nvrtc(found.nvrtc.as_ref(), found.driver.as_ref().ok()),
        toolkit(Path::new("/"), cuda_path),
        nccl(&found.nccl, several),
    ]
}

/// Checks that the driver's library loads, starts and sees GPUs.
fn driver(driver: &Result<CudaDriver, String>) -> Check {
    const NAME: &str = "libcuda";
    let hint = "CUDA_VISIBLE_DEVICES may hide all GPUs; a container needs `--gpus all` and \
                NVIDIA_DRIVER_CAPABILITIES=compute,utility";
    match driver {
        Ok(CudaDriver { capabilities, .. }) if capabilities.is_empty() => {
            Check::problem(NAME, "`libcuda.so.1` works, but sees no GPU", hint)
        }
        Ok(CudaDriver { version: (major, minor), capabilities }) => {
            let gpus: Vec<_> = capabilities.iter().map(|(major, minor)| format!("{major}.{minor}")).collect();
            let list = gpus.join(", ");
            Check::ok(NAME, format!("CUDA up to {major}.{minor}; GPUs of compute capability {list}"))
        }
        Err(message) => {
            let known = explain(message);
            let finding = known.map_or(message.clone(), |known| format!("{message}: {}", known.what));
            Check::problem(NAME, finding, known.map_or(hint, |known| known.hint))
        }
    }
}

/// Checks that NVRTC exists, is no newer than the driver that reads its output, and no older than the GPUs.
fn nvrtc(nvrtc: Option<&Nvrtc>, driver: Option<&CudaDriver>) -> Check {
    const NAME: &str = "NVRTC";
    let Some(Nvrtc { file, version, architectures }) = nvrtc else {
        let hint = "the CUDA toolkit contains it; add the folder of `libnvrtc.so` to LD_LIBRARY_PATH";
        return Check::problem(NAME, "`libnvrtc.so` cannot be loaded, so no kernel can be compiled", hint);
    };
    let Some((major, minor)) = version else {
        let finding = format!("`{file}` does not report its version");
        return Check::warning(NAME, finding, "install another CUDA toolkit");
    };
    let finding = format!("`{file}` of CUDA {major}.{minor}");
    if let Some(CudaDriver { version, .. }) = driver.filter(|driver| driver.version < (*major, *minor)) {
        let (major, minor) = version;
        let finding = format!("{finding}, but the driver reads output of CUDA {major}.{minor} at most");
        let hint = "update the driver, or put an older `libnvrtc.so` first in LD_LIBRARY_PATH";
        return Check::problem(NAME, finding, hint);
    }
    let unknown = |(major, minor): &&(i32, i32)| {
        !architectures.is_empty() && !architectures.contains(&(major * 10 + minor))
    };
    match driver.into_iter().flat_map(|driver| &driver.capabilities).find(unknown) {
        Some((major, minor)) => Check::problem(
            NAME,
            format!("{finding}, which cannot compile for the GPU's compute capability {major}.{minor}"),
            "put the `libnvrtc.so` of a CUDA toolkit that supports the GPU first in LD_LIBRARY_PATH",
        ),
        None => Check::ok(NAME, finding),
    }
}

/// Checks NCCL, which only several GPUs need.
fn nccl(nccl: &Nccl, several: bool) -> Check {
    const NAME: &str = "NCCL";
    match nccl {
        Nccl::Found { file } => Check::ok(NAME, format!("`{file}`")),
        Nccl::OtherName { .. } | Nccl::Missing if !several => {
            Check::skipped(NAME, "`libnccl.so` not found; only several GPUs need it")
        }
        Nccl::OtherName { file } => Check::warning(
            NAME,
            format!("`{file}` exists, but Burn looks for `libnccl.so`"),
            "install NCCL's development files, or link `libnccl.so` to it in a folder of LD_LIBRARY_PATH",
        ),
        Nccl::Missing => Check::warning(
            NAME,
            "`libnccl.so` cannot be loaded, so several GPUs exchange gradients through host memory",
            "install NCCL with its development files; one GPU does not need it",
        ),
    }
}

/// The places where Burn looks for the toolkit without CUDA_PATH (cubecl-cuda, `lib.rs`, `install::cuda_path`): the path
/// that must exist, and the toolkit's folder.
const PLACES: [(&str, &str); 3] =
    [("usr/local/cuda", "usr/local/cuda"), ("opt/cuda", "opt/cuda"), ("usr/bin/nvcc", "usr")];

/// The headers that kernels include: half precision, and matrix products on tensor cores.
const HEADERS: [&str; 3] = ["cuda_fp16.h", "cuda_bf16.h", "mma.h"];

/// Checks the toolkit's folder, without which Burn panics when it compiles a kernel, and the headers in it.
fn toolkit(root: &Path, cuda_path: Option<&Path>) -> Check {
    const NAME: &str = "CUDA toolkit";
    let found = match cuda_path {
        Some(path) => Some(path.to_owned()),
        None => PLACES.iter().find(|(sign, _)| root.join(sign).exists()).map(|(_, folder)| root.join(folder)),
    };
    let Some(folder) = found else {
        return Check::problem(
            NAME,
            "not found, so no kernel can be compiled: CUDA_PATH is not set, and `/usr/local/cuda`, `/opt/cuda` and \
             `/usr/bin/nvcc` do not exist",
            "install the toolkit, or set CUDA_PATH to the folder that contains `include/cuda_fp16.h`",
        );
    };
    let include: PathBuf = folder.join("include");
    let missing: Vec<_> = HEADERS.iter().filter(|header| !include.join(header).exists()).collect();
    if missing.is_empty() {
        return Check::ok(NAME, format!("headers in `{}`", include.display()));
    }
    let missing = missing.iter().map(|header| format!("`{header}`")).collect::<Vec<_>>().join(", ");
    let include = include.display();
    let finding = format!("{missing} not found in `{include}`; kernels in half precision cannot be compiled");
    let hint = "set CUDA_PATH to a folder that contains `include/cuda_fp16.h`, or install the toolkit's \
                development files";
    Check::warning(NAME, finding, hint)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::check::CheckState;

    const HOPPER: CudaDriver = CudaDriver { version: (12, 4), capabilities: Vec::new() };

    fn hopper() -> CudaDriver {
        CudaDriver { capabilities: vec![(9, 0)], ..HOPPER }
    }

    fn of_version(version: (i32, i32), architectures: &[i32]) -> Nvrtc {
        Nvrtc { file: "libnvrtc.so.12", version: Some(version), architectures: architectures.to_vec() }
    }

    #[test]
    fn the_library_of_the_driver_must_see_a_gpu() {
        let check = driver(&Ok(hopper()));
        assert_eq!(check.finding, "CUDA up to 12.4; GPUs of compute capability 9.0");
        assert_eq!(check.state, CheckState::Ok);
        assert_eq!(driver(&Ok(HOPPER)).state, CheckState::Problem);
    }

    #[test]
    fn errors_of_the_driver_are_explained() {
        // The text of `DeviceError::Driver` in the trainer.
        let check = driver(&Err("device `cuda:0`: the CUDA driver failed with code 803".into()));
        assert_eq!(check.state, CheckState::Problem);
        assert!(check.finding.contains("code 803: the NVIDIA kernel module"), "{check:?}");
        assert!(check.hint.unwrap().starts_with("restart"));
    }

    #[test]
    fn the_compiler_must_go_with_driver_and_gpu() {
        let state = |found: &Nvrtc| nvrtc(Some(found), Some(&hopper())).state;
        assert_eq!(state(&of_version((12, 4), &[80, 90])), CheckState::Ok);
        assert_eq!(state(&of_version((12, 0), &[])), CheckState::Ok);
        assert_eq!(state(&of_version((12, 6), &[80, 90])), CheckState::Problem);
        assert_eq!(state(&of_version((11, 4), &[70, 80])), CheckState::Problem);
        assert_eq!(state(&Nvrtc { version: None, ..of_version((0, 0), &[]) }), CheckState::Warning);
        assert_eq!(nvrtc(None, Some(&hopper())).state, CheckState::Problem);
        assert_eq!(nvrtc(Some(&of_version((13, 0), &[90])), None).state, CheckState::Ok);
    }

    #[test]
    fn several_gpus_need_nccl() {
        assert_eq!(nccl(&Nccl::Found { file: "libnccl.so" }, true).state, CheckState::Ok);
        let other = Nccl::OtherName { file: "libnccl.so.2" };
        assert_eq!(nccl(&other, true).finding, "`libnccl.so.2` exists, but Burn looks for `libnccl.so`");
        assert_eq!(nccl(&Nccl::Missing, true).state, CheckState::Warning);
        assert_eq!(nccl(&Nccl::Missing, false).state, CheckState::Skipped);
    }

    #[test]
    fn the_toolkit_is_where_burn_looks() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        assert_eq!(toolkit(root.path(), None).state, CheckState::Problem);
        fs::create_dir_all(at("usr/bin")).unwrap();
        fs::write(at("usr/bin/nvcc"), "").unwrap();
        let check = toolkit(root.path(), None);
        assert_eq!(check.state, CheckState::Warning);
        assert!(check.finding.contains("`cuda_fp16.h`, `cuda_bf16.h`, `mma.h` not found in"), "{check:?}");
        fs::create_dir_all(at("usr/local/cuda/include")).unwrap();
        for header in HEADERS {
            fs::write(at("usr/local/cuda/include").join(header), "").unwrap();
        }
        let check = toolkit(root.path(), None);
        assert_eq!((check.state, check.finding.contains("usr/local/cuda/include")), (CheckState::Ok, true));
    }

    #[test]
    fn the_variable_comes_first() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("usr/local/cuda")).unwrap();
        let check = toolkit(root.path(), Some(Path::new("/nowhere")));
        assert!(check.finding.contains("`/nowhere/include`"), "{check:?}");
    }
}

use oomph_memory::health::Check;

use crate::DeviceError;

/// What the driver's library tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Driver {
    /// The newest CUDA that it knows.
    pub(crate) version: (i32, i32),
    /// The compute capability of each GPU, as `(9, 0)`.
    pub(crate) capabilities: Vec<(i32, i32)>,
}

/// What NVRTC tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compiler {
    /// The name under which it was found.
    pub(crate) file: &'static str,
    /// The CUDA it belongs to.
    pub(crate) version: Option<(i32, i32)>,
    /// Compute capabilities that it compiles for, as 90; empty where it does not tell.
    pub(crate) architectures: Vec<i32>,
}

/// Whether NCCL can be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nccl {
    /// Under a name that Burn's loader tries.
    Found { file: &'static str },
    /// Under another.
    OtherName { file: &'static str },
    /// Not at all.
    Missing,
}

/// The driver's library: it loads, starts and sees GPUs.
pub(super) fn driver(driver: &Result<Driver, DeviceError>) -> Check {
    const NAME: &str = "libcuda";
    let hint = "CUDA_VISIBLE_DEVICES may hide all; a container needs `--gpus all` and \
                NVIDIA_DRIVER_CAPABILITIES=compute,utility";
    match driver {
        Ok(Driver { capabilities, .. }) if capabilities.is_empty() => {
            Check::problem(NAME, "`libcuda.so.1` works, and sees no GPU", hint)
        }
        Ok(Driver { version: (major, minor), capabilities }) => {
            let gpus: Vec<_> = capabilities.iter().map(|(major, minor)| format!("{major}.{minor}")).collect();
            let list = gpus.join(", ");
            Check::ok(NAME, format!("CUDA up to {major}.{minor}; GPUs of compute capability {list}"))
        }
        Err(error) => {
            let message = error.to_string();
            let known = crate::explain(&message);
            let finding = known.map_or(message.clone(), |known| format!("{message}: {}", known.what));
            Check::problem(NAME, finding, known.map_or(hint, |known| known.hint))
        }
    }
}

/// NVRTC: there, not newer than the driver, which must read what it writes, and not older than the GPUs.
pub(super) fn compiler(compiler: Option<&Compiler>, driver: Option<&Driver>) -> Check {
    const NAME: &str = "NVRTC";
    let Some(Compiler { file, version, architectures }) = compiler else {
        return Check::problem(
            NAME,
            "`libnvrtc.so` cannot be loaded, and no kernel can be compiled without",
            "it comes with the CUDA toolkit; put the folder of `libnvrtc.so` into LD_LIBRARY_PATH",
        );
    };
    let Some((major, minor)) = version else {
        return Check::warning(
            NAME,
            format!("`{file}` does not tell its version"),
            "install another CUDA toolkit",
        );
    };
    let finding = format!("`{file}` of CUDA {major}.{minor}");
    if let Some(Driver { version, .. }) = driver.filter(|driver| driver.version < (*major, *minor)) {
        return Check::problem(
            NAME,
            format!("{finding}, and the driver reads what CUDA up to {}.{} writes", version.0, version.1),
            "update the driver, or put an older `libnvrtc.so` first in LD_LIBRARY_PATH",
        );
    }
    let unknown = |(major, minor): &&(i32, i32)| {
        !architectures.is_empty() && !architectures.contains(&(major * 10 + minor))
    };
    match driver.into_iter().flat_map(|driver| &driver.capabilities).find(unknown) {
        Some((major, minor)) => Check::problem(
            NAME,
            format!("{finding}, which does not compile for the GPU's compute capability {major}.{minor}"),
            "put the `libnvrtc.so` of a CUDA toolkit that knows the GPU first in LD_LIBRARY_PATH",
        ),
        None => Check::ok(NAME, finding),
    }
}

/// NCCL, which only several GPUs need.
pub(super) fn nccl(nccl: &Nccl, several: bool) -> Check {
    const NAME: &str = "NCCL";
    match nccl {
        Nccl::Found { file } => Check::ok(NAME, format!("`{file}`")),
        Nccl::OtherName { .. } | Nccl::Missing if !several => {
            Check::skipped(NAME, "not found as `libnccl.so`, which only several GPUs need")
        }
        Nccl::OtherName { file } => Check::warning(
            NAME,
            format!("`{file}` is there, and Burn looks for `libnccl.so`"),
            "install NCCL's development files, or link `libnccl.so` to it in a folder of LD_LIBRARY_PATH",
        ),
        Nccl::Missing => Check::warning(
            NAME,
            "`libnccl.so` cannot be loaded, so that several GPUs cannot exchange gradients through it",
            "install NCCL with its development files; one GPU does without",
        ),
    }
}

#[cfg(test)]
mod tests {
    use oomph_config::DeviceName;
    use oomph_memory::health::State;

    use super::*;

    const HOPPER: Driver = Driver { version: (12, 4), capabilities: Vec::new() };

    fn hopper() -> Driver {
        Driver { capabilities: vec![(9, 0)], ..HOPPER }
    }

    fn nvrtc(version: (i32, i32), architectures: &[i32]) -> Compiler {
        Compiler { file: "libnvrtc.so.12", version: Some(version), architectures: architectures.to_vec() }
    }

    #[test]
    fn the_library_of_the_driver_must_see_a_gpu() {
        let check = driver(&Ok(hopper()));
        assert_eq!(check.finding, "CUDA up to 12.4; GPUs of compute capability 9.0");
        assert_eq!(check.state, State::Ok);
        assert_eq!(driver(&Ok(HOPPER)).state, State::Problem);
    }

    #[test]
    fn what_the_driver_answers_is_explained() {
        let device = DeviceName::Cuda(0);
        let check = driver(&Err(DeviceError::Driver { device, code: 803 }));
        assert_eq!(check.state, State::Problem);
        assert!(check.finding.contains("code 803: the kernel runs another version"), "{check:?}");
        assert!(check.hint.unwrap().starts_with("restart"));
    }

    #[test]
    fn the_compiler_must_go_with_driver_and_gpu() {
        let state = |compiler_of: &Compiler| compiler(Some(compiler_of), Some(&hopper())).state;
        assert_eq!(state(&nvrtc((12, 4), &[80, 90])), State::Ok);
        assert_eq!(state(&nvrtc((12, 0), &[])), State::Ok);
        assert_eq!(state(&nvrtc((12, 6), &[80, 90])), State::Problem);
        assert_eq!(state(&nvrtc((11, 4), &[70, 80])), State::Problem);
        assert_eq!(state(&Compiler { version: None, ..nvrtc((0, 0), &[]) }), State::Warning);
        assert_eq!(compiler(None, Some(&hopper())).state, State::Problem);
        assert_eq!(compiler(Some(&nvrtc((13, 0), &[90])), None).state, State::Ok);
    }

    #[test]
    fn several_gpus_need_nccl() {
        assert_eq!(nccl(&Nccl::Found { file: "libnccl.so" }, true).state, State::Ok);
        let other = Nccl::OtherName { file: "libnccl.so.2" };
        assert_eq!(nccl(&other, true).finding, "`libnccl.so.2` is there, and Burn looks for `libnccl.so`");
        assert_eq!(nccl(&Nccl::Missing, true).state, State::Warning);
        assert_eq!(nccl(&Nccl::Missing, false).state, State::Skipped);
    }
}

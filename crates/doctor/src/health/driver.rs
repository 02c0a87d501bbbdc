use std::{fs, path::Path};

use super::hardware::Hardware;
use crate::check::Check;
use oomph_memory::{gpu::NvmlError, processes::Procfs};

const NAME: &str = "NVIDIA driver";

/// The folders of the driver's libraries: of distributions, its own installer, containers and WSL.
const FOLDERS: [&str; 7] = [
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/nvidia/lib64",
    "usr/lib/wsl/lib",
    "run/opengl-driver/lib",
];

/// Checks the driver: the kernel module, the libraries, and that their versions agree. `nvml` is the answer of the
/// management library: the driver's version or an error.
pub fn driver(procfs: &Procfs, hardware: &Hardware, nvml: Result<Option<String>, &NvmlError>) -> Check {
    let kernel = procfs.read("proc/driver/nvidia/version").as_deref().and_then(version);
    let library = library(procfs);
    if let (Some(kernel), Some(library)) = (&kernel, &library)
        && kernel != library
    {
        return mismatch(format!("the kernel module has version {kernel}, the libraries {library}"));
    }
    let error = match nvml {
        Ok(version) => {
            let version = version.or(kernel).or(library).unwrap_or_else(|| "unknown version".into());
            return Check::ok(NAME, version);
        }
        Err(error) => error,
    };
    match (error, kernel) {
        (NvmlError::VersionMismatch, _) => {
            mismatch("the kernel module and the libraries have different versions".into())
        }
        (NvmlError::Missing { .. }, Some(kernel)) => Check::problem(
            NAME,
            format!(
                "the kernel module has version {kernel}, but its library `libnvidia-ml.so.1` cannot be loaded"
            ),
            "a container needs `--gpus all` and NVIDIA_DRIVER_CAPABILITIES=compute,utility; elsewhere install the \
             driver's libraries in the same version",
        ),
        (NvmlError::Missing { .. }, None) if hardware.is_there() => Check::problem(
            NAME,
            "an NVIDIA GPU is present, but no driver for it",
            "install the driver from NVIDIA or the distribution; `nouveau` does not support CUDA",
        ),
        (error, _) => {
            let hint = error.hint().unwrap_or("`nvidia-smi` shows details");
            Check::problem(NAME, error.to_string(), hint)
        }
    }
}

fn mismatch(finding: String) -> Check {
    Check::problem(
        NAME,
        format!("{finding}: the driver was updated, but the old module still runs"),
        "restart the machine, or unload the modules (`rmmod nvidia_drm nvidia_modeset nvidia_uvm nvidia`) and run \
         `nvidia-smi`; restart a container to get the new libraries",
    )
}

/// The first word of digits and dots, as in
/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024`.
fn version(text: &str) -> Option<String> {
    let is_version =
        |word: &&str| word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.lines().next()?.split_whitespace().find(is_version).map(str::to_owned)
}

/// The version of the libraries, from the name of the file that `libnvidia-ml.so.1` links to.
fn library(procfs: &Procfs) -> Option<String> {
    FOLDERS.iter().find_map(|folder| {
        let link = procfs.path(Path::new(folder).join("libnvidia-ml.so.1"));
        let target = fs::read_link(link).ok()?;
        let version = target.file_name()?.to_str()?.strip_prefix("libnvidia-ml.so.")?;
        version.contains('.').then(|| version.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        check::CheckState,
        health::tree::{Tree, state_and_finding},
    };

    const KERNEL: &str = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\nGCC version: 12.2.0\n";
    const OPEN: &str = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder@U16)\n";

    fn there() -> Hardware {
        Hardware { nodes: vec![0], on_bus: 1, wsl: false }
    }

    #[test]
    fn one_version_everywhere_is_well() {
        let tree = Tree::of(&[("proc/driver/nvidia/version", KERNEL)]);
        tree.link("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "libnvidia-ml.so.550.54.14");
        let check = driver(&tree.procfs(), &there(), Ok(Some("550.54.14".into())));
        assert_eq!(state_and_finding(&check), (CheckState::Ok, "550.54.14"));
        assert_eq!(version(OPEN).as_deref(), Some("570.86.15"));
        assert_eq!(state_and_finding(&driver(&Tree::of(&[]).procfs(), &there(), Ok(None))).0, CheckState::Ok);
    }

    #[test]
    fn an_update_without_a_restart_is_found() {
        let tree = Tree::of(&[("proc/driver/nvidia/version", KERNEL)]);
        tree.link("usr/lib64/libnvidia-ml.so.1", "/usr/lib64/libnvidia-ml.so.560.35.03");
        let check = driver(&tree.procfs(), &there(), Err(&NvmlError::VersionMismatch));
        assert_eq!(
            state_and_finding(&check),
            (
                CheckState::Problem,
                "the kernel module has version 550.54.14, the libraries 560.35.03: the driver was updated, but the old \
                 module still runs"
            )
        );
        let unknown = driver(&Tree::of(&[]).procfs(), &there(), Err(&NvmlError::VersionMismatch));
        assert!(unknown.finding.starts_with("the kernel module and the libraries"), "{unknown:?}");
    }

    #[test]
    fn missing_parts_of_the_driver_are_distinguished() {
        let missing = || {
            let source = nvml_wrapper::error::NvmlError::LibraryNotFound;
            NvmlError::Missing { library: "libnvidia-ml.so.1", source }
        };
        let tree = Tree::of(&[]);
        let check = driver(&tree.procfs(), &there(), Err(&missing()));
        assert_eq!(
            state_and_finding(&check),
            (CheckState::Problem, "an NVIDIA GPU is present, but no driver for it")
        );
        tree.write("proc/driver/nvidia/version", KERNEL);
        let check = driver(&tree.procfs(), &there(), Err(&missing()));
        assert!(
            check.finding.starts_with("the kernel module has version 550.54.14, but its library"),
            "{check:?}"
        );
        let none = driver(&Tree::of(&[]).procfs(), &Hardware::default(), Err(&missing()));
        assert!(none.finding.contains("no NVIDIA driver is installed"), "{none:?}");
        let asleep = driver(&Tree::of(&[]).procfs(), &there(), Err(&NvmlError::NotLoaded));
        assert_eq!(
            state_and_finding(&asleep),
            (CheckState::Problem, "the NVIDIA driver is installed, but not loaded")
        );
    }
}

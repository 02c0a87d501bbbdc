use std::{fs, path::Path};

use super::{Check, Hardware};
use crate::{gpu::NvmlError, processes::Procfs};

const NAME: &str = "NVIDIA driver";

/// Where its libraries are put, by distributions, by its own installer, by containers and by WSL.
const FOLDERS: [&str; 7] = [
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/nvidia/lib64",
    "usr/lib/wsl/lib",
    "run/opengl-driver/lib",
];

/// The driver: the module in the kernel, its libraries, and whether they are of one version. `nvml` is what its
/// management library answered: the version it tells, or why it does not.
pub fn driver(procfs: &Procfs, hardware: &Hardware, nvml: Result<Option<String>, &NvmlError>) -> Check {
    let kernel = procfs.read("proc/driver/nvidia/version").as_deref().and_then(version);
    let library = library(procfs);
    if let (Some(kernel), Some(library)) = (&kernel, &library)
        && kernel != library
    {
        return mismatch(format!("the kernel runs {kernel} and the libraries are of {library}"));
    }
    let error = match nvml {
        Ok(told) => {
            let version = told.or(kernel).or(library).unwrap_or_else(|| "of unknown version".into());
            return Check::ok(NAME, version);
        }
        Err(error) => error,
    };
    match (error, kernel) {
        (NvmlError::VersionMismatch, _) => {
            mismatch("the kernel runs another version than the libraries are of".into())
        }
        (NvmlError::Missing { .. }, Some(kernel)) => Check::problem(
            NAME,
            format!("the kernel runs {kernel}, and its libraries (`libnvidia-ml.so.1`) cannot be loaded"),
            "a container needs `--gpus all` and NVIDIA_DRIVER_CAPABILITIES=compute,utility; elsewhere install the \
             driver's libraries, of the same version",
        ),
        (NvmlError::Missing { .. }, None) if hardware.is_there() => Check::problem(
            NAME,
            "there is an NVIDIA GPU, and no driver for it",
            "install the driver from NVIDIA or the distribution; `nouveau` cannot compute",
        ),
        (error, _) => {
            let hint = error.hint().unwrap_or("`nvidia-smi` says more");
            Check::problem(NAME, error.to_string(), hint)
        }
    }
}

fn mismatch(finding: String) -> Check {
    Check::problem(
        NAME,
        format!("{finding}: it was updated and the old one still runs"),
        "restart the machine, or unload the modules (`rmmod nvidia_drm nvidia_modeset nvidia_uvm nvidia`) and run \
         `nvidia-smi`; restart a container to get the new libraries",
    )
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024`: the first word that is
/// digits and dots.
fn version(text: &str) -> Option<String> {
    let is_version =
        |word: &&str| word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.lines().next()?.split_whitespace().find(is_version).map(str::to_owned)
}

/// The version of the libraries, which is in the name of the file that `libnvidia-ml.so.1` leads to.
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
    use crate::health::{
        State,
        tree::{Tree, told},
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
        assert_eq!(told(&check), (State::Ok, "550.54.14"));
        assert_eq!(version(OPEN).as_deref(), Some("570.86.15"));
        assert_eq!(told(&driver(&Tree::of(&[]).procfs(), &there(), Ok(None))).0, State::Ok);
    }

    #[test]
    fn an_update_without_a_restart_is_found() {
        let tree = Tree::of(&[("proc/driver/nvidia/version", KERNEL)]);
        tree.link("usr/lib64/libnvidia-ml.so.1", "/usr/lib64/libnvidia-ml.so.560.35.03");
        let check = driver(&tree.procfs(), &there(), Err(&NvmlError::VersionMismatch));
        assert_eq!(
            told(&check),
            (
                State::Problem,
                "the kernel runs 550.54.14 and the libraries are of 560.35.03: it was updated and the old one still \
                 runs"
            )
        );
        let unknown = driver(&Tree::of(&[]).procfs(), &there(), Err(&NvmlError::VersionMismatch));
        assert!(unknown.finding.starts_with("the kernel runs another version"), "{unknown:?}");
    }

    #[test]
    fn what_is_missing_is_told_apart() {
        let missing = || {
            let source = nvml_wrapper::error::NvmlError::LibraryNotFound;
            NvmlError::Missing { library: "libnvidia-ml.so.1", source }
        };
        let tree = Tree::of(&[]);
        let check = driver(&tree.procfs(), &there(), Err(&missing()));
        assert_eq!(told(&check), (State::Problem, "there is an NVIDIA GPU, and no driver for it"));
        tree.write("proc/driver/nvidia/version", KERNEL);
        let check = driver(&tree.procfs(), &there(), Err(&missing()));
        assert!(check.finding.starts_with("the kernel runs 550.54.14, and its libraries"), "{check:?}");
        let none = driver(&Tree::of(&[]).procfs(), &Hardware::default(), Err(&missing()));
        assert!(none.finding.contains("no NVIDIA driver is installed"), "{none:?}");
        let asleep = driver(&Tree::of(&[]).procfs(), &there(), Err(&NvmlError::NotLoaded));
        assert_eq!(told(&asleep), (State::Problem, "the NVIDIA driver is installed and not loaded"));
    }
}

//! Checks of what Vulkan needs: the loader, and a driver for each GPU.

use std::path::PathBuf;

use crate::check::Check;

/// Vulkan on this machine, as found by whoever loads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vulkan {
    /// Why the loader `libvulkan` cannot be loaded.
    pub loader: Result<(), String>,
    /// The files by which drivers tell the loader of themselves.
    pub manifests: Vec<PathBuf>,
    /// The GPUs that drivers show.
    pub gpus: Vec<VulkanGpu>,
}

/// A GPU that a driver shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VulkanGpu {
    /// The GPU and its driver.
    pub description: String,
    /// Whether the driver computes on the processor, as Mesa's lavapipe does.
    pub is_processor: bool,
}

/// Checks the loader and the drivers.
pub fn vulkan(found: &Vulkan) -> Vec<Check> {
    vec![loader(&found.loader), drivers(&found.gpus, &found.manifests)]
}

fn loader(found: &Result<(), String>) -> Check {
    const NAME: &str = "Vulkan loader";
    match found {
        Ok(()) => Check::ok(NAME, "`libvulkan` loads"),
        Err(reason) => Check::problem(
            NAME,
            format!("`libvulkan` cannot be loaded: {reason}"),
            "install the loader: the package `libvulkan1`, `vulkan-loader` or `vulkan-icd-loader`",
        ),
    }
}

fn drivers(gpus: &[VulkanGpu], manifests: &[PathBuf]) -> Check {
    const NAME: &str = "Vulkan drivers";
    const INSTALL: &str = "install the driver: Mesa (`mesa-vulkan-drivers`) for AMD and Intel, NVIDIA's own for NVIDIA; a \
                           container needs the device files `/dev/dri`";
    let list = gpus.iter().enumerate().map(|(index, gpu)| format!("`vulkan:{index}` is {}", gpu.description));
    let list = list.collect::<Vec<_>>().join("; ");
    match (gpus, manifests) {
        ([], []) => Check::problem(NAME, "no driver is installed: there is no manifest of one", INSTALL),
        ([], manifests) => Check::problem(
            NAME,
            format!(
                "drivers are installed, such as that of `{}`, but none shows a GPU",
                manifests[0].display()
            ),
            INSTALL,
        ),
        (gpus, _) if gpus.iter().all(|gpu| gpu.is_processor) => {
            Check::warning(NAME, format!("only the processor: {list}"), INSTALL)
        }
        _ => Check::ok(NAME, list),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CheckState;

    fn gpu(description: &str, is_processor: bool) -> VulkanGpu {
        VulkanGpu { description: description.to_owned(), is_processor }
    }

    #[test]
    fn a_driver_of_a_gpu_is_enough() {
        let gpus = [gpu("Radeon RX 7900 (radv)", false), gpu("llvmpipe (lavapipe)", true)];
        let check = drivers(&gpus, &[]);
        assert_eq!(check.state, CheckState::Ok);
        assert_eq!(check.finding, "`vulkan:0` is Radeon RX 7900 (radv); `vulkan:1` is llvmpipe (lavapipe)");
    }

    #[test]
    fn a_processor_alone_is_a_warning_and_nothing_a_problem() {
        let check = drivers(&[gpu("llvmpipe (lavapipe)", true)], &[]);
        assert_eq!(check.state, CheckState::Warning);
        assert_eq!(check.finding, "only the processor: `vulkan:0` is llvmpipe (lavapipe)");
        let none = drivers(&[], &[]);
        assert_eq!(none.state, CheckState::Problem);
        assert!(none.finding.contains("no manifest"), "{}", none.finding);
        let silent = drivers(&[], &["/usr/share/vulkan/icd.d/radeon_icd.json".into()]);
        assert!(silent.finding.contains("radeon_icd.json"), "{}", silent.finding);
        let missing = loader(&Err("libvulkan.so.1: cannot open shared object file".to_owned()));
        assert_eq!(missing.state, CheckState::Problem);
        assert!(missing.hint.is_some_and(|hint| hint.contains("libvulkan1")));
    }
}

use std::{env, path::Path, process, time::Duration};

use oomph_doctor::{
    Check, HAS_CUDA,
    health::{self, Hardware},
    installation,
};
use oomph_memory::{
    gpu::{Cards, Nvml, NvmlError, visible_devices},
    processes::{Procfs, Watch, on_gpus},
};
use oomph_trainer::device::{cuda_libraries, vulkan};

/// The requirements of training on a GPU of any vendor, in a build with Vulkan.
pub(super) fn of_vulkan(needed: bool) -> Vec<Check> {
    let found = vulkan().iter().flat_map(oomph_doctor::vulkan).collect::<Vec<_>>();
    found.into_iter().map(|check| check.unless_needed(needed)).collect()
}

/// The requirements of training on an NVIDIA GPU. Without a GPU, and if none is needed, a single skipped check.
pub(super) fn gpus(procfs: &Procfs, hardware: &Hardware, needed: bool, several: bool) -> Vec<Check> {
    if !hardware.is_there() && !needed {
        let finding = match HAS_CUDA {
            true => "there is no NVIDIA GPU in this machine",
            false => "there is no NVIDIA GPU in this machine, and this build is for the CPU only",
        };
        return vec![Check::skipped("GPUs", finding)];
    }
    let mut checks = vec![presence(hardware)];
    if !HAS_CUDA {
        let hint = "build with `cargo build --release --features cuda`; the build itself does not need CUDA";
        let finding = "this build of oomph is for the CPU only and cannot use a GPU";
        checks.push(Check::problem("CUDA in the build", finding, hint));
    }
    let mut nvml = Nvml::open();
    let version = nvml.as_ref().map(Nvml::driver_version);
    checks.push(health::driver(procfs, hardware, version));
    if hardware.is_there() {
        checks.push(health::device_files(procfs, hardware));
    }
    let cuda_path = env::var_os("CUDA_PATH");
    let libraries = cuda_libraries().into_iter();
    checks.extend(
        libraries.flat_map(|found| installation(&found, cuda_path.as_deref().map(Path::new), several)),
    );
    if let Ok(nvml) = &mut nvml {
        checks.extend(cards(nvml, procfs));
    }
    checks.into_iter().map(|check| check.unless_needed(needed)).collect()
}

fn presence(hardware: &Hardware) -> Check {
    const NAME: &str = "GPUs";
    match hardware.count() {
        0 => Check::problem(
            NAME,
            "there is no NVIDIA GPU in this machine: no `/dev/nvidia0`, and none on the PCI bus",
            "use `--devices cpu`; a container needs `--gpus all`, a virtual machine needs GPU passthrough",
        ),
        1 => Check::ok(NAME, "1 NVIDIA GPU in this machine"),
        count => Check::ok(NAME, format!("{count} NVIDIA GPUs in this machine")),
    }
}

/// The cards, and whether CUDA_VISIBLE_DEVICES shows them.
fn cards(nvml: &mut Nvml, procfs: &Procfs) -> Vec<Check> {
    let cards = match nvml.sample() {
        Ok(cards) => cards,
        Err(error) => return vec![health::lost(&error as &NvmlError)],
    };
    let mut checks = vec![health::visible_devices(&cards, visible_devices())];
    // A single sample shows the processes, but not which are stale.
    let on = on_gpus(&cards, procfs, &mut Watch::default(), Duration::ZERO);
    checks.extend(cards.iter().map(|card| health::gpu(card, &on, nvml.state(card.index), process::id())));
    checks
}

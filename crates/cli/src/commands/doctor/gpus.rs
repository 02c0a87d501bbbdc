use std::{env, path::Path, process, time::Duration};

use oomph_memory::{
    gpu::{Cards, Nvml, NvmlError},
    health::{self, Check, Hardware},
    processes::{Procfs, Watch, on_gpus},
};
use oomph_trainer::{HAS_CUDA, installation};

/// Everything that a training on a GPU needs. Where there is no GPU and nobody asked for one, one sentence.
pub(super) fn gpus(procfs: &Procfs, hardware: &Hardware, needed: bool, several: bool) -> Vec<Check> {
    if !hardware.is_there() && !needed {
        let finding = match HAS_CUDA {
            true => "there is no NVIDIA GPU in this machine",
            false => "there is no NVIDIA GPU in this machine, and this build is for the CPU only",
        };
        return vec![Check::skipped("GPUs", finding)];
    }
    let mut checks = vec![presence(hardware)];
    checks.extend((!HAS_CUDA).then(without_cuda));
    let mut nvml = Nvml::open();
    let version = nvml.as_ref().map(Nvml::driver_version);
    checks.push(health::driver(procfs, hardware, version));
    if hardware.is_there() {
        checks.push(health::device_files(procfs, hardware));
    }
    let cuda_path = env::var_os("CUDA_PATH");
    checks.extend(installation(cuda_path.as_deref().map(Path::new), several));
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
            "use `--devices cpu`; a container needs `--gpus all`, a virtual machine a GPU passed through",
        ),
        1 => Check::ok(NAME, "1 of NVIDIA in this machine"),
        count => Check::ok(NAME, format!("{count} of NVIDIA in this machine")),
    }
}

fn without_cuda() -> Check {
    let hint = "build with CUDA: `cargo build --release --features cuda`; nothing of CUDA is needed for that";
    let finding = "this build of oomph is for the CPU only and cannot use a GPU";
    Check::problem("CUDA in the build", finding, hint)
}

/// The cards themselves, and which of them this process sees.
fn cards(nvml: &mut Nvml, procfs: &Procfs) -> Vec<Check> {
    let cards = match nvml.sample() {
        Ok(cards) => cards,
        Err(error) => return vec![health::lost(&error as &NvmlError)],
    };
    let variable = env::var_os("CUDA_VISIBLE_DEVICES").map(|list| list.to_string_lossy().into_owned());
    let mut checks = vec![health::visible_devices(&cards, variable.as_deref())];
    // One look does not tell who is stale, only who is there.
    let on = on_gpus(&cards, procfs, &mut Watch::default(), Duration::ZERO);
    checks.extend(cards.iter().map(|card| health::gpu(card, &on, nvml.state(card.index), process::id())));
    checks
}

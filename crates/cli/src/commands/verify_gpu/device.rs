//! The card, its driver and its libraries.

use oomph_config::DeviceName;
use oomph_doctor::{Check, CheckState, CudaLibraries, Nccl};
use oomph_memory::{
    gpu::{Card, Cards as _, Nvml, cuda_devices, visible_devices},
    machine,
};
use oomph_trainer::device::{DeviceInfo, cuda_libraries, free_bytes, list_devices, vulkan};
use serde_json::{Value, json};

use super::figures::Figures;
use crate::commands::doctor::gpu_checks;

/// The figures of the device. The check fails if the doctor finds a problem.
pub(super) fn check(device: DeviceName) -> Figures {
    let (devices, _) = list_devices();
    let info = devices.into_iter().find(|info| info.name == device.to_string());
    let checks = if device == DeviceName::Cpu { Vec::new() } else { gpu_checks(&[device]) };
    let problem = checks.iter().find(|check| check.state == CheckState::Problem);
    let machine = machine();
    Figures {
        passes: problem.is_none() && info.is_some(),
        limit: None,
        finding: match problem {
            Some(problem) => format!("{}: {}", problem.name, problem.finding),
            None => info.as_ref().map(description).unwrap_or_default(),
        },
        values: json!({
            "device": info,
            "free_bytes": free_bytes(device),
            "cuda": matches!(device, DeviceName::Cuda(_)).then(|| cuda(device)),
            "vulkan": matches!(device, DeviceName::Vulkan(_)).then(vulkan_gpus),
            "doctor": checks.iter().map(state).collect::<Value>(),
            "processor": machine.processor,
            "cores": machine.cores,
            "host_memory_bytes": machine.memory_bytes,
        }),
    }
}

fn description(info: &DeviceInfo) -> String {
    format!("{}, {}", info.description, info.memory_bytes)
}

/// The name and the state of a doctor's check. Its finding may name processes and folders of the user.
fn state(check: &Check) -> Value {
    json!({ "name": check.name, "state": check.state })
}

/// Driver, libraries and card.
fn cuda(device: DeviceName) -> Value {
    let mut nvml = Nvml::open().ok();
    let driver_version = nvml.as_ref().and_then(Nvml::driver_version);
    let cards = nvml.as_mut().and_then(|nvml| nvml.sample().ok()).unwrap_or_default();
    let index = if let DeviceName::Cuda(index) = device { index } else { 0 };
    let visible = cuda_devices(&cards, visible_devices());
    json!({
        "driver_version": driver_version,
        "libraries": cuda_libraries().map(|found| libraries(&found, index)),
        "card": visible.get(index).map(|found| state_of_card(found.card)),
    })
}

fn libraries(found: &CudaLibraries, index: usize) -> Value {
    let version = |(major, minor): (i32, i32)| format!("{major}.{minor}");
    let driver = found.driver.as_ref().ok();
    let nvrtc = found.nvrtc.as_ref();
    json!({
        "driver_cuda": driver.map(|driver| version(driver.version)),
        "compute_capability": driver.and_then(|driver| driver.capabilities.get(index).copied()).map(version),
        "nvrtc": nvrtc.and_then(|nvrtc| nvrtc.version).map(version),
        "nvrtc_architectures": nvrtc.map(|nvrtc| &nvrtc.architectures),
        "nccl": matches!(found.nccl, Nccl::Found { .. }),
    })
}

/// What may slow a card down.
fn state_of_card(card: &Card) -> Value {
    json!({
        "name": card.name,
        "mig": card.mig,
        "processes": card.processes.len(),
        "gpu_utilization_percent": card.gpu_utilization_percent,
        "temperature_celsius": card.temperature_celsius,
        "power_watts": card.power_watts,
        "power_limit_watts": card.power_limit_watts,
    })
}

/// The GPUs that drivers of Vulkan show.
fn vulkan_gpus() -> Value {
    let gpus = vulkan().map(|found| found.gpus).unwrap_or_default();
    gpus.iter()
        .map(|gpu| json!({ "description": gpu.description, "is_processor": gpu.is_processor }))
        .collect::<Value>()
}

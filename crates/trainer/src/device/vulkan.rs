//! GPUs of any vendor, by Vulkan, or by Metal on a Mac.

use std::{env, ffi::OsStr, fs, path::PathBuf};

use burn::tensor::{Device, DeviceKind};
use libloading::Library;
use oomph_config::DeviceName;
use oomph_core::Bytes;
use oomph_doctor::{Vulkan, VulkanGpu};
use oomph_gpu_kernels::{Adapter, AdapterKind, adapters};

use super::{DeviceInfo, OpenDeviceError};

/// The GPUs that drivers show, by index.
pub(super) fn gpus() -> Vec<DeviceInfo> {
    let named = |(index, adapter): (usize, &Adapter)| DeviceInfo {
        name: DeviceName::Vulkan(index).to_string(),
        description: description(adapter),
        memory_bytes: Bytes::new(adapter.memory_bytes.unwrap_or(0)),
    };
    adapters().iter().enumerate().map(named).collect()
}

fn description(Adapter { name, driver, .. }: &Adapter) -> String {
    format!("{name} ({driver})")
}

/// Opens the GPU of this index.
pub(super) fn open(device: DeviceName, index: usize) -> Result<Device, OpenDeviceError> {
    let adapters = adapters();
    let Some(adapter) = adapters.get(index) else {
        return Err(OpenDeviceError::NoSuchGpu { device, count: adapters.len() });
    };
    Ok(Device::webgpu(match adapter.kind {
        AdapterKind::Discrete => DeviceKind::DiscreteGpu(adapter.index),
        AdapterKind::Integrated => DeviceKind::IntegratedGpu(adapter.index),
        AdapterKind::Virtual => DeviceKind::VirtualGpu(adapter.index),
        AdapterKind::Processor => DeviceKind::Cpu,
    }))
}

/// The loader and what drivers show.
pub(super) fn found() -> Vulkan {
    let gpus = adapters().iter().map(|adapter| VulkanGpu {
        description: description(adapter),
        is_processor: adapter.kind == AdapterKind::Processor,
    });
    // Metal needs no loader.
    let loader = if cfg!(target_os = "macos") { Ok(()) } else { loader() };
    Vulkan { loader, manifests: manifests(), gpus: gpus.collect() }
}

fn loader() -> Result<(), String> {
    let name = if cfg!(windows) { "vulkan-1.dll" } else { "libvulkan.so.1" };
    // SAFETY: the loader's initialisers depend on nothing of this process, and wgpu loads it too.
    unsafe { Library::new(name) }.map(drop).map_err(|error| error.to_string())
}

/// The files by which drivers tell the loader of themselves (the loader's documentation, "Driver Discovery"), on Linux.
fn manifests() -> Vec<PathBuf> {
    for variable in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        if let Some(list) = env::var_os(variable) {
            return env::split_paths(&list).filter(|path| path.exists()).collect();
        }
    }
    let folders = ["/etc", "/usr/local/etc", "/usr/local/share", "/usr/share"];
    let folders = folders.map(|folder| PathBuf::from(folder).join("vulkan/icd.d"));
    let files = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let paths = files.filter_map(|file| Some(file.ok()?.path()));
    let mut paths: Vec<_> = paths.filter(|path| path.extension() == Some(OsStr::new("json"))).collect();
    paths.sort();
    paths
}

/// The memory of a GPU; `None` where its driver does not tell.
pub(super) fn memory_bytes(index: usize) -> Option<Bytes> {
    adapters().get(index)?.memory_bytes.map(Bytes::new)
}

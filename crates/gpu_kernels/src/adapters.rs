//! The GPUs that Vulkan shows, or Metal on a Mac.

use std::sync::LazyLock;

use cubecl::{future::block_on, wgpu::AutoGraphicsApi, wgpu::GraphicsApi};
use wgpu::{DeviceType, Instance, InstanceDescriptor, hal::api};

/// A GPU with its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// The GPU as its driver names it.
    pub name: String,
    /// The name and version of the driver.
    pub driver: String,
    /// What it is.
    pub kind: AdapterKind,
    /// Its number among those of its kind, from 0.
    pub index: usize,
    /// The memory of the GPU, where the driver tells. An integrated GPU's is that of the machine.
    pub memory_bytes: Option<u64>,
}

/// What an adapter is, the fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdapterKind {
    /// A card with memory of its own.
    Discrete,
    /// A part of the processor's chip.
    Integrated,
    /// A GPU that a host shares with a virtual machine.
    Virtual,
    /// A driver that computes on the processor, such as Mesa's lavapipe.
    Processor,
}

/// The adapters of this machine, the fastest kinds first; none without a loader or a driver. Drivers are asked once, since that
/// loads all of them.
pub fn adapters() -> &'static [Adapter] {
    static ADAPTERS: LazyLock<Vec<Adapter>> = LazyLock::new(found);
    &ADAPTERS
}

fn found() -> Vec<Adapter> {
    let backends = AutoGraphicsApi::backend().into();
    let instance =
        Instance::new(InstanceDescriptor { backends, ..InstanceDescriptor::new_without_display_handle() });
    let mut adapters: Vec<Adapter> = Vec::new();
    for adapter in block_on(instance.enumerate_adapters(backends)) {
        let info = adapter.get_info();
        let kind = match info.device_type {
            DeviceType::DiscreteGpu => AdapterKind::Discrete,
            DeviceType::IntegratedGpu => AdapterKind::Integrated,
            DeviceType::VirtualGpu => AdapterKind::Virtual,
            DeviceType::Cpu => AdapterKind::Processor,
            // CubeCL cannot name it.
            DeviceType::Other => continue,
        };
        adapters.push(Adapter {
            name: info.name,
            driver: [info.driver, info.driver_info].join(" ").trim().to_owned(),
            kind,
            // CubeCL counts in the same order.
            index: adapters.iter().filter(|other| other.kind == kind).count(),
            memory_bytes: memory_bytes(&adapter),
        });
    }
    adapters.sort_by_key(|adapter| (adapter.kind, adapter.index));
    adapters
}

/// The largest heap of the device's own memory.
#[cfg(not(target_os = "macos"))]
fn memory_bytes(adapter: &wgpu::Adapter) -> Option<u64> {
    /// `VK_MEMORY_HEAP_DEVICE_LOCAL_BIT`.
    const DEVICE_LOCAL: u32 = 1;
    // SAFETY: the guard lives as long as it is used, and nothing is destroyed through it.
    let vulkan = unsafe { adapter.as_hal::<api::Vulkan>() }?;
    let instance = vulkan.shared_instance().raw_instance();
    // SAFETY: the physical device is one of this instance.
    let memory = unsafe { instance.get_physical_device_memory_properties(vulkan.raw_physical_device()) };
    let heaps = memory.memory_heaps.iter().take(memory.memory_heap_count as usize);
    heaps.filter(|heap| heap.flags.as_raw() & DEVICE_LOCAL != 0).map(|heap| heap.size).max()
}

/// Metal does not tell.
#[cfg(target_os = "macos")]
fn memory_bytes(_adapter: &wgpu::Adapter) -> Option<u64> {
    None
}

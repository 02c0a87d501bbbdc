//! Measures the memory of training.
//!
//! - [`CountingAllocator`]: the global allocator that [`install_meter!`] puts into a binary. It counts live and peak
//!   bytes in two accounts: allocations of compute threads are **in use** on the CPU device, all others are **host**.
//! - [`Account`] and [`charge`]: the account that the current thread's allocations go to.
//! - [`Reading`]: the figures of one moment, taken by [`read`].
//! - [`ComputePool`]: the compute threads of one of several CPU devices, each of which is counted separately.
//! - [`compute_threads`]: starts the compute threads, charged to the device.
//! - [`set_limit`] and [`take_crossing`]: enforce a smaller limit; [`default_limit`] is the limit of this machine.
//! - [`record`]: the newest allocations one by one, which become a [`Timeline`](oomph_timeline::Timeline).
//! - [`leak`]: compares successive steps, and reports memory that is never freed.
//! - [`gpu`]: known GPU models, and the cards of this machine with their processes.
//! - [`processes`]: the memory of this machine's processes; [`cgroup`]: the limits of containers and jobs.
//!
//! ```
//! oomph_memory::install_meter!();
//!
//! # fn main() {
//! let before = oomph_memory::read();
//! let tensor = oomph_memory::charge(oomph_memory::Account::Device, || vec![1.0f32; 1 << 20]);
//! let after = oomph_memory::read();
//! assert_eq!(after.in_use_bytes.get() - before.in_use_bytes.get(), 4 << 20);
//! drop(tensor);
//! assert_eq!(oomph_memory::read().in_use_bytes, before.in_use_bytes);
//! # }
//! ```
//!
//! It knows no models and no tensors, and predicts nothing.

mod allocator;
mod awake;
pub mod cgroup;
mod cores;
pub mod gpu;
pub mod leak;
mod limit;
mod machine;
mod process_limit;
pub mod processes;
mod reading;
pub mod record;
mod refusal;
mod system_memory;
mod threads;

pub use allocator::{CountingAllocator, give_back_freed_memory, keep_freed_memory};
pub use cores::{Cores, ParseCoresError};
pub use limit::{Crossing, crossing, limit, set_device_limit, set_limit, take_crossing};
pub use machine::{DefaultLimit, LimitReason, MachineInfo, default_limit, default_limit_from, machine};
pub use oomph_core::{Account, charge};
pub use process_limit::ProcessLimit;
pub use reading::{Reading, is_installed, read, read_device, restart_peak};
pub use refusal::{has_process_limit, refused_bytes};
pub use system_memory::meminfo_field;
pub use threads::{
    ComputePool, ThreadsError, compute_threads, on_compute_threads, running_threads, threads_per_device,
    within_threads,
};

/// Makes [`CountingAllocator`] the global allocator of this binary or test, which measures memory on the CPU.
///
/// Call it once per program, at the root of `main.rs` or of a test file.
#[macro_export]
macro_rules! install_meter {
    () => {
        #[global_allocator]
        static OOMPH_METER: $crate::CountingAllocator = $crate::CountingAllocator;
    };
}

//! Measures the memory of training.
//!
//! - [`CountingAllocator`]: the global allocator that [`install_meter!`] puts into a binary. It counts live and peak
//!   bytes in two accounts: what compute threads allocate is **in use** on the CPU device, everything else is **host**.
//! - [`Account`] and [`charge`]: which account the current thread's allocations go to.
//! - [`Reading`]: the figures of one moment; [`read`] takes them.
//! - [`ComputePool`]: the compute threads of one of several CPU devices, each of which is counted apart.
//! - [`set_limit`] and [`take_crossing`]: rehearse a smaller device; [`default_limit`] is what this machine leaves.
//! - [`record`]: the newest allocations one by one, from which a [`Timeline`] is made.
//! - [`leak`]: compares successive steps, and says what is never given back.
//! - [`Draft`]: raw blocks that become a [`Timeline`], recorded or planned.
//! - [`compute_threads`]: starts the compute threads, charged to the device.
//! - [`health`]: what of this machine is missing or wrong, as `oomph doctor` tells it.
//! - [`gpu`]: GPUs by name, and those of this machine with who is on them; [`processes`]: who holds which memory.
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

mod account;
mod allocator;
mod cgroup;
mod cores;
pub mod export;
pub mod gpu;
pub mod health;
pub mod leak;
mod limit;
mod machine;
pub mod processes;
mod reading;
pub mod record;
mod threads;
mod timeline;

pub use account::{Account, charge};
pub use allocator::{CountingAllocator, give_back_freed_memory, keep_freed_memory};
pub use cores::{Cores, ParseCoresError};
pub use limit::{Crossing, crossing, limit, set_device_limit, set_limit, take_crossing};
pub use machine::{DefaultLimit, LimitReason, Machine, default_limit, machine};
pub use reading::{Reading, is_installed, read, read_device, restart_peak};
pub use threads::{
    ComputePool, ThreadsError, compute_threads, on_compute_threads, running_threads, threads_per_device,
};
pub use timeline::{
    Block, Category, Clock, Draft, Held, Holder, Lane, LaneKind, LaneSpan, LaneTimes, Name, Names, Origin,
    Peak, RawBlock, Span, SpanKind, Split, Timeline,
};

/// Makes [`CountingAllocator`] the global allocator of this binary or test, so that memory is measured on the CPU.
///
/// Once in a program, at the root of its `main.rs` (or of a test file).
#[macro_export]
macro_rules! install_meter {
    () => {
        #[global_allocator]
        static OOMPH_METER: $crate::CountingAllocator = $crate::CountingAllocator;
    };
}

//! The memory of this machine's processes, on GPUs and on the host.
//!
//! - [`Procfs`]: the kernel's files, read anew with every call.
//! - [`Process`]: one process; [`HostMemory`]: the machine and its cgroup.
//! - [`on_gpus`]: the processes on the cards, by the driver or by their open files.
//! - [`is_stale`], [`Watch`]: processes that hold a GPU without using it. They are reported, never ended.

mod on_gpus;
mod process;
mod procfs;
mod stale;

pub use on_gpus::{GpuFiles, GpuProcess, on_gpus};
pub use process::{Process, ProcessState};
pub use procfs::{HostMemory, Procfs};
pub use stale::{LONGEST_GAP, Look, STALE_AFTER, Watch, is_stale};

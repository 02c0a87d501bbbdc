//! The processes of this machine, as far as memory goes: who holds how much, on GPUs and on the host.
//!
//! - [`Procfs`]: what the kernel tells, read anew with every call.
//! - [`Process`]: one of them; [`HostMemory`]: the machine and its cgroup.
//! - [`on_gpus`]: who is on the cards, told by the driver or by the files that are open.
//! - [`is_stale`], [`Watch`]: which of them nobody needs any more. They are named, never ended.

mod gpu_files;
mod host;
mod on_gpus;
mod process;
mod procfs;
mod stale;

pub use gpu_files::GpuFiles;
pub use host::HostMemory;
pub use on_gpus::{GpuProcess, on_gpus};
pub use process::{Process, State};
pub use procfs::Procfs;
pub use stale::{LONGEST_GAP, Look, STALE_AFTER, Watch, is_stale};

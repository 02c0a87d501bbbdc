//! What an operating system does in its own way. The rest of oomph is the same on Linux, macOS and Windows.
//!
//! Linux alone has `/proc` and cgroups: their readers find no files elsewhere, and say that nothing is known.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::path::PathBuf;

#[cfg(unix)]
use unix as own;
#[cfg(windows)]
use windows as own;

pub use own::{
    ending_signal, in_own_group, keep_owner, link_target, read_exact_at, rename_new, replace_process,
    set_link, special_kind, sync_directory, without_waiting,
};

/// What tells a file or folder from another one that has its name later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    volume: u64,
    index: u64,
}

/// The file of the running program: what a process starts to run itself again.
///
/// On Linux it stays the running program even where its file was replaced or removed since the start. Where the system does
/// not say, it is the first word of the command line.
pub fn this_program() -> PathBuf {
    if cfg!(target_os = "linux") {
        return "/proc/self/exe".into();
    }
    let first = || std::env::args_os().next().unwrap_or_default().into();
    std::env::current_exe().unwrap_or_else(|_| first())
}

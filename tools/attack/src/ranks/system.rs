//! Calls of the system on processes of a job, and small disks.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// Sends a signal. `false` if there is no such process any more.
pub(super) fn send(process: u32, signal: i32) -> bool {
    // SAFETY: `kill` takes two numbers and touches no memory of this process.
    unsafe { libc::kill(process as libc::pid_t, signal) == 0 }
}

/// A limit that the system sets a process.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// The size of each file that it writes.
    FileSize,
    /// Its address space.
    Memory,
}

/// Sets a running process a limit in bytes.
///
/// # Errors
/// If the system refuses, or there is no such process any more.
pub(super) fn limit(process: u32, what: Limit, bytes: u64) -> io::Result<()> {
    let resource = match what {
        Limit::FileSize => libc::RLIMIT_FSIZE,
        Limit::Memory => libc::RLIMIT_AS,
    };
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: `limit` lives throughout the call, and the system accepts null for the old limit.
    let result =
        unsafe { libc::prlimit(process as libc::pid_t, resource, &raw const limit, std::ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The bytes of address space that a process has.
pub(super) fn address_space(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// A small disk, unmounted when it is dropped.
#[derive(Debug)]
pub(super) struct Disk(PathBuf);

impl Disk {
    /// Mounts a disk of this size at a folder; the reason if the machine refuses.
    pub(super) fn mount(at: &Path, bytes: u64) -> Result<Self, String> {
        let options = format!("size={bytes}");
        succeeds(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "oomph-attack"]).arg(at))?;
        Ok(Self(at.to_owned()))
    }

    /// Gives it another size.
    pub(super) fn resize(&self, bytes: u64) -> Result<(), String> {
        succeeds(Command::new("mount").args(["-o", &format!("remount,size={bytes}")]).arg(&self.0))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: also where a process that was just killed still has a file there.
        if let Err(error) = succeeds(Command::new("umount").arg("--lazy").arg(&self.0)) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let says = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {}", says.trim())) }
}

//! Stops a program at chosen system calls, in all its threads and child processes.
//!
//! A filter in the kernel (seccomp) stops only the chosen calls, so that the others cost nothing; ptrace then shows each
//! to the attack, which lets it through, refuses it, shortens it, or kills the program. This exists for Linux on x86-64;
//! [`missing`] tells why it does not work elsewhere.

mod calls;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod filter;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod memory;
#[cfg(test)]
mod tests;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod tracer;

use std::{path::PathBuf, time::Duration};

use crate::{Answer, Error, Program};

/// A system call that the program makes.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// As in the manual: `pwrite64`.
    pub(crate) name: &'static str,
    /// Its six registers.
    pub(crate) arguments: [u64; 6],
    /// The file that it is about, absolute: what its path names, links in the last place unresolved, or what its
    /// descriptor is of. Of `link`, the file that exists; of `symlink`, the new link. `pipe:[123]` if it is a pipe.
    pub(crate) path: Option<PathBuf>,
    /// The new name of `rename` and `link`, the text of `symlink`, the target of `copy_file_range` and `sendfile`.
    pub(crate) second_path: Option<PathBuf>,
    /// What a `write`, `pwrite64` or `writev` writes, if [`Options::records_data`].
    pub(crate) data: Option<Vec<u8>>,
    /// Whether a process makes it that the program started.
    pub(crate) is_of_child: bool,
}

/// When a call is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before the kernel executes it.
    Before,
    /// After that, with its result. Only calls answered with [`Action::Watch`] or [`Action::Short`] are shown again.
    After(i64),
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It executes.
    Continue,
    /// It executes, and is shown again with its result.
    Watch,
    /// The program and its child processes get SIGKILL. A call shown before it executes never does.
    Kill,
    /// It does not execute, and gives this error number. Only before it executes.
    Fail(i32),
    /// It reads or writes at most so many bytes, of `writev` so many buffers. Only before it executes.
    Short(usize),
}

/// What is traced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options<'a> {
    /// The names of the calls that stop. An unknown name is an error.
    pub(crate) calls: &'a [&'a str],
    /// Whether [`Call::data`] is read.
    pub(crate) records_data: bool,
    /// The program is killed after this time.
    pub(crate) limit: Duration,
}

/// How a traced program ended.
#[derive(Debug)]
pub(crate) struct Traced {
    /// What it answered.
    pub(crate) answer: Answer,
    /// Whether [`Action::Kill`] ended it.
    pub(crate) is_killed: bool,
}

impl Call {
    /// The flags of an `open`, `openat` or `creat`.
    pub(crate) fn open_flags(&self) -> Option<i32> {
        let flags = match self.name {
            "open" => self.arguments[1],
            "openat" => self.arguments[2],
            "creat" => return Some(libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC),
            _ => return None,
        };
        // The kernel reads the lower half of the register.
        Some(flags as u32 as i32)
    }

    /// Whether it opens a file that it may write or create.
    pub(crate) fn opens_to_write(&self) -> bool {
        self.open_flags().is_some_and(|flags| {
            flags & libc::O_ACCMODE != libc::O_RDONLY || flags & (libc::O_CREAT | libc::O_TRUNC) != 0
        })
    }
}

/// Runs a program, and shows each chosen call to `on_call`.
///
/// The calling thread waits for all its children, so it must have no others.
///
/// # Errors
/// If the system does not start the program, or does not trace it.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) fn run(
    program: Program,
    options: Options<'_>,
    on_call: &mut dyn FnMut(Moment, &Call) -> Action,
) -> Result<Traced, Error> {
    tracer::run(program, options, on_call)
}

/// There is no tracer for this machine.
///
/// # Errors
/// Always.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(crate) fn run(
    _program: Program,
    _options: Options<'_>,
    _on_call: &mut dyn FnMut(Moment, &Call) -> Action,
) -> Result<Traced, Error> {
    Err("system calls are traced on Linux on x86-64 alone".into())
}

/// Why this machine cannot trace system calls; `None` if it can.
pub(crate) fn missing() -> Option<String> {
    let program = Program::new("true".as_ref(), &std::env::temp_dir());
    let options = Options { calls: &["openat"], records_data: false, limit: Duration::from_secs(10) };
    let mut calls = 0;
    let traced = run(program, options, &mut |_, _| {
        calls += 1;
        Action::Continue
    });
    match traced {
        Ok(traced) if traced.answer.is_success() && calls > 0 => None,
        Ok(traced) => Some(format!("no tracer: `true` gave {:?} after {calls} calls", traced.answer.status)),
        Err(error) => Some(format!("no tracer: {error}")),
    }
}

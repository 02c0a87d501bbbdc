//! The processes that commands start.

use std::{
    fs,
    process::Child,
    time::{Duration, Instant},
};

use libc::{SIGINT, SIGKILL, SIGTERM};

use crate::support::Folder;

pub(crate) fn wait_for<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "nothing happened for a minute");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The `oomph probe` child of a process, once it has replaced its forked copy.
pub(crate) fn child_of(parent: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    let child = children.split_whitespace().next()?.parse().ok()?;
    let command = fs::read(format!("/proc/{child}/cmdline")).ok()?;
    command.ends_with(b"probe\0").then_some(child)
}

fn is_running(process: u32) -> bool {
    // A zombie has exited too.
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    !status.is_empty() && !status.contains(") Z ")
}

pub(crate) fn signal(process: u32, signal: i32) {
    // SAFETY: the id belongs to a child of this process that was not waited for, so it is not reused.
    assert_eq!(unsafe { libc::kill(process as i32, signal) }, 0);
}

/// Sends each signal to a command with a child: both end as they should.
pub(crate) fn check_that_signals_leave_none(
    folder: impl Fn() -> Folder,
    start: impl Fn(&Folder) -> (Child, u32),
) {
    for (number, code) in [(SIGINT, Some(130)), (SIGTERM, Some(143)), (SIGKILL, None)] {
        let folder = folder();
        let (mut command, child) = start(&folder);
        assert!(is_running(child));
        signal(command.id(), number);
        let status = command.wait().expect("a child of this process");
        assert_eq!(status.code(), code);
        wait_for(|| (!is_running(child)).then_some(()));
    }
}

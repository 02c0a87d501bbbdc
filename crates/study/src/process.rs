use std::{
    fs,
    io::{self, Read},
    path::Path,
    sync::OnceLock,
};

use oomph_core::open_file;
use serde::{Deserialize, Serialize};

/// A process, named so that no other one has the name: not on another machine, not after a restart of this one, and not with
/// the same id later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessName {
    /// The machine since its start, and the namespace of process ids.
    machine: String,
    /// The process id.
    pid: i32,
    /// When it started, in clock ticks since the start of the machine.
    started: u64,
}

impl ProcessName {
    /// This process. `None` on systems without Linux's `/proc`.
    pub fn own() -> Option<Self> {
        let pid = i32::try_from(std::process::id()).ok()?;
        let stat = Stat::read(pid).ok()??;
        Some(Self { machine: machine()?.to_owned(), pid, started: stat.started })
    }

    /// Whether the process is known to have ended. Of a process on another machine nothing is known.
    pub fn is_gone(&self) -> bool {
        if machine() != Some(&self.machine) {
            return false;
        }
        match Stat::read(self.pid) {
            Ok(Some(stat)) => stat.has_ended || stat.started != self.started,
            Ok(None) => false,
            // A `/proc` that is mounted with `hidepid` does not show the processes of other users.
            Err(error) => error.kind() == io::ErrorKind::NotFound && !exists(self.pid),
        }
    }
}

#[cfg(unix)]
fn exists(pid: i32) -> bool {
    // Not allowed to send signals to it, it exists.
    let pid = rustix::process::Pid::from_raw(pid);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// Not asked: without `/proc` no process has a name.
#[cfg(not(unix))]
fn exists(_: i32) -> bool {
    true
}

/// The name of this machine, its start, and the namespace that process ids here belong to.
fn machine() -> Option<&'static str> {
    static MACHINE: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let host = text("/proc/sys/kernel/hostname".as_ref()).ok()?;
        let host = host.trim();
        let start = text("/proc/sys/kernel/random/boot_id".as_ref()).ok()?;
        let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
        Some(format!("{host} {} {}", start.trim(), namespace.display()))
    };
    MACHINE.get_or_init(read).as_deref()
}

/// A file that the kernel makes.
fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_file(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// What `/proc/<pid>/stat` tells.
struct Stat {
    /// Whether it has ended, and its parent does not know yet.
    has_ended: bool,
    started: u64,
}

impl Stat {
    /// `None` where the file cannot be understood.
    fn read(pid: i32) -> io::Result<Option<Self>> {
        Ok(Self::parse(&text(format!("/proc/{pid}/stat").as_ref())?))
    }

    /// The name of the program stands in parentheses, and may have some itself. After it come the state, and as number 22
    /// of all fields the start.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        Some(Self { has_ended: matches!(state, "Z" | "X"), started: fields.nth(18)?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn of(pid: u32) -> ProcessName {
        let pid = pid as i32;
        let started = Stat::read(pid).unwrap().unwrap().started;
        ProcessName { machine: machine().unwrap().to_owned(), pid, started }
    }

    #[test]
    fn the_start_is_the_twenty_second_field() {
        let text = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.has_ended, stat.started), (false, 4711));
        assert!(Stat::parse("7 (a) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711").unwrap().has_ended);
        assert!(Stat::parse("7 (a) Z 1 2 3").is_none());
    }

    #[test]
    fn a_process_is_gone_once_it_was_killed_even_before_its_parent_knows() {
        let own = ProcessName::own().expect("this system has /proc");
        assert!(!own.is_gone());
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let name = of(child.id());
        assert!(!name.is_gone());
        child.kill().unwrap();
        while !name.is_gone() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(name.is_gone());
    }

    #[test]
    fn another_process_with_the_same_id_is_another_one() {
        let own = ProcessName::own().unwrap();
        assert!(ProcessName { started: own.started + 1, ..own.clone() }.is_gone());
        let elsewhere = ProcessName { machine: "elsewhere".into(), started: own.started + 1, ..own };
        assert!(!elsewhere.is_gone(), "nobody here knows");
    }
}

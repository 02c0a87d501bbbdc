use std::{path::PathBuf, time::Duration};

use oomph_core::Bytes;

/// A process at the moment it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// The id of its parent.
    pub parent: u32,
    /// The id of its session.
    pub session: u32,
    /// Its owner: a user name, or a user id without a name.
    pub user: String,
    /// Its command line, the program first; the kernel's short name if the command line is hidden.
    pub command: Vec<String>,
    /// The program's file. Only root can read it for other users' processes.
    pub executable: Option<PathBuf>,
    /// Its state.
    pub state: Option<ProcessState>,
    /// Its start time since the start of the machine. Together with the id it identifies the process.
    pub started: Duration,
    /// The time since its start.
    pub age: Duration,
    /// Its processor time.
    pub processor_time: Duration,
    /// Its resident memory (RSS).
    pub resident_bytes: Bytes,
    /// Its peak resident memory (VmHWM).
    pub peak_resident_bytes: Bytes,
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// Running, or waiting for a processor.
    Running,
    /// Waiting for an event.
    Sleeping,
    /// Waiting for a device, uninterruptible.
    Waiting,
    /// Stopped.
    Stopped,
    /// Ended, but not yet awaited by its parent.
    Zombie,
}

impl ProcessState {
    /// Parses the letter in `/proc/<pid>/stat`.
    fn of(letter: &str) -> Option<Self> {
        match letter {
            "R" => Some(Self::Running),
            "S" | "I" => Some(Self::Sleeping),
            "D" => Some(Self::Waiting),
            "T" | "t" => Some(Self::Stopped),
            "Z" | "X" => Some(Self::Zombie),
            _ => None,
        }
    }
}

/// Ticks a second of the times in `/proc`, on every architecture that NVIDIA has drivers for (USER_HZ).
const TICKS: f64 = 100.0;

/// The contents of `/proc/<pid>/stat`.
pub(super) struct Stat {
    /// The kernel's short name.
    pub(super) name: String,
    pub(super) state: Option<ProcessState>,
    pub(super) parent: u32,
    pub(super) session: u32,
    pub(super) processor_time: Duration,
    pub(super) started: Duration,
}

impl Stat {
    /// The fields are those of proc(5), counted from the state, which is the third.
    pub(super) fn parse(text: &str) -> Option<Self> {
        // The name stands in parentheses and may hold anything, parentheses too.
        let (before, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
        let time = |ticks: u64| Duration::from_secs_f64(ticks as f64 / TICKS);
        Some(Self {
            name: before.split_once('(')?.1.to_owned(),
            state: ProcessState::of(fields.first()?),
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            processor_time: time(ticks(11)? + ticks(12)?),
            started: time(ticks(19)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meminfo_field;

    #[test]
    fn a_name_may_hold_anything() {
        let text = "7 (a) S (b) Z 3 7 5 0 -1 0 0 0 0 0 150 50 0 0 20 0 1 0 1200 0 0";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.name.as_str(), stat.state), ("a) S (b", Some(ProcessState::Zombie)));
        assert_eq!((stat.parent, stat.session), (3, 5));
        assert_eq!(stat.processor_time, Duration::from_secs(2));
        assert_eq!(stat.started, Duration::from_secs(12));
    }

    #[test]
    fn half_a_line_is_no_process() {
        for text in ["", "7 (a", "7 (a) S", "7 (a) S x 7 7"] {
            assert!(Stat::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn fields_of_the_status_are_read() {
        let status = "Name:\tcat\nVmHWM:\t    1960 kB\nVmRSS:\t1 kB\n";
        assert_eq!(meminfo_field(status, "VmHWM:"), Some(1960 * 1024));
        assert_eq!(meminfo_field(status, "VmSwap:"), None);
    }
}

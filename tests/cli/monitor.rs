//! `monitor`: its report of this machine, and how it stops.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    os::fd::{FromRawFd, OwnedFd},
    process::{Child, Stdio},
};

use serde_json::Value;

use crate::support::{Case, Folder, check, snapshot};

/// A child that is killed at the end of its test.
struct Running(Child);

impl Running {
    fn interrupt(&self) {
        let id = i32::try_from(self.0.id()).expect("a process id");
        // SAFETY: the id belongs to a child of this process that was not waited for, so it is not reused.
        assert_eq!(unsafe { libc::kill(id, libc::SIGINT) }, 0);
    }

    fn end(mut self) -> Option<i32> {
        self.0.wait().expect("a child of this process").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Kills the child of a failed test. A child that has exited cannot be killed, which is no error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn the_command_explains_itself() {
    let answer = Folder::new().oomph(&["monitor", "--help"]).success();
    snapshot("help_monitor", &answer.stdout);
}

#[test]
fn intervals_that_make_no_sense_are_refused() {
    check(
        "malformed_monitor",
        &[
            Case::new("no time at all", &["monitor", "--interval", "0"]),
            Case::new("too long", &["monitor", "--interval", "2h"]),
            Case::new("not a time", &["monitor", "--interval", "often"]),
            Case::new("one sample has no interval", &["monitor", "--once", "--interval", "1s"]),
        ],
    );
}

#[test]
fn a_sample_tells_of_the_host_and_why_there_is_no_gpu() {
    let folder = Folder::new();
    let sample = folder.oomph(&["monitor", "--once", "--json"]).success();
    assert_eq!((sample.stdout.lines().count(), sample.stderr.as_str()), (1, ""));
    let sample = sample.last_json();
    assert_eq!(keys(&sample), ["cards", "host", "no_gpu", "trainings", "unix_seconds"]);
    let host = &sample["host"];
    let (total, available) =
        (host["total_bytes"].as_u64().unwrap(), host["available_bytes"].as_u64().unwrap());
    assert!(0 < available && available <= total, "{host}");
    assert_eq!(keys(host), ["available_bytes", "cgroup_limit_bytes", "cgroup_used_bytes", "total_bytes"]);

    let shown = folder.oomph(&["monitor", "--once"]).success();
    assert!(shown.stdout.contains("host memory  "), "{shown}");
    match sample["no_gpu"].as_str() {
        Some(reason) => {
            assert!(shown.stderr.starts_with(&format!("note: no GPU: NVML: {reason}\n")), "{shown}")
        }
        None => assert_eq!(shown.stderr, ""),
    }
}

#[test]
fn a_machine_without_a_driver_says_what_is_missing() {
    let shown = Folder::new().oomph(&["monitor", "--once"]).success();
    // Otherwise the driver is present.
    if shown.stderr.contains("libnvidia-ml.so.1") {
        snapshot("monitor_without_a_driver", &shown.stderr);
    }
}

#[test]
fn a_training_that_runs_is_shown_with_its_memory() {
    let folder = Folder::new();
    let mut command =
        folder.command(&["train", "--config", "tiny.toml", "--set", "train.steps=10000000", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped"));
    let training = Running(child);
    lines.read_line(&mut String::new()).expect("its first event");

    let sample = folder.oomph(&["monitor", "--once", "--json"]).success().last_json();
    let all = sample["trainings"].as_array().expect("a list");
    let shown = all.iter().find(|it| it["pid"] == training.0.id()).expect("the training is listed");
    assert_eq!(
        keys(shown),
        [
            "age_seconds",
            "command",
            "peak_resident_bytes",
            "pid",
            "processor_percent",
            "resident_bytes",
            "user"
        ]
    );
    let (resident, peak) = (&shown["resident_bytes"], &shown["peak_resident_bytes"]);
    assert!(resident.as_u64().unwrap() > 1 << 20 && peak.as_u64() >= resident.as_u64(), "{shown}");
    assert!(shown["command"].as_str().unwrap().contains("train --config tiny.toml"), "{shown}");

    let text = folder.oomph(&["monitor", "--once"]).success().stdout;
    assert!(text.contains("oomph train --config tiny.toml"), "{text}");
}

#[test]
fn ctrl_c_ends_the_watching_without_an_error() {
    let folder = Folder::new();
    let mut command = folder.command(&["monitor", "--json", "--interval", "100ms"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let running = Running(child);
    let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line.expect("UTF-8")).expect("JSON"));
    let (first, second) = (lines.next().expect("a sample"), lines.next().expect("another"));
    assert!(first["unix_seconds"].as_f64() < second["unix_seconds"].as_f64());
    running.interrupt();
    assert_eq!(running.end(), Some(0));
}

#[test]
fn a_reader_that_leaves_ends_the_watching_without_an_error() {
    let folder = Folder::new();
    let mut child = folder
        .command(&["monitor", "--interval", "100ms"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(Running(child).end(), Some(0));
}

/// The output on a terminal until Ctrl-C, which follows the third report.
fn drawn(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let size = libc::winsize { ws_row: 40, ws_col: 70, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut ours, mut theirs) = (0, 0);
    // SAFETY: the pointers are to locals of the types that the call writes and reads, the others may be null; the two
    // descriptors are new and nobody else's.
    let (mut ours, theirs) = unsafe {
        let null = std::ptr::null_mut();
        assert_eq!(
            libc::openpty(&mut ours, &mut theirs, null, std::ptr::null_mut(), &raw const size as *mut _),
            0
        );
        (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    };
    let folder = Folder::new();
    let mut command = folder.command(arguments);
    command.stdin(Stdio::null()).stdout(theirs).stderr(Stdio::null()).env("TERM", "xterm-256color");
    command.envs(environment.iter().copied());
    let running = Running(command.spawn().expect("the binary starts"));
    // The command also holds the terminal open, so it is dropped.
    drop(command);
    let (mut text, mut buffer, mut interrupted) = (String::new(), [0; 4096], false);
    // After the last writer closes the terminal, Linux returns an error instead of the end of the file.
    while let Ok(read @ 1..) = ours.read(&mut buffer) {
        text += &String::from_utf8_lossy(&buffer[..read]);
        if !interrupted && text.matches(CLEAR).count() >= 2 {
            running.interrupt();
            interrupted = true;
        }
    }
    assert_eq!(running.end(), Some(0), "{text:?}");
    text
}

const HIDE_CURSOR: &str = "\u{1b}[?25l";
const SHOW_CURSOR: &str = "\u{1b}[?25h";
const CLEAR: &str = "\u{1b}[0J";

#[test]
fn a_terminal_is_drawn_over_and_left_with_its_cursor() {
    let text = drawn(&["monitor", "--interval", "100ms"], &[]);
    assert!(text.starts_with(HIDE_CURSOR) && text.ends_with(SHOW_CURSOR), "{text:?}");
    assert!(text.matches(CLEAR).count() >= 2, "{text:?}");
    assert_eq!(text.matches("host memory").count(), text.matches(CLEAR).count() + 1, "{text:?}");
}

#[test]
fn one_sample_is_printed_and_not_drawn() {
    let folder = Folder::new();
    let mut command = folder.command(&["monitor", "--interval", "100ms"]);
    let child = command.env("TERM", "dumb").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut running = Running(child);
    let mut lines = BufReader::new(running.0.stdout.take().expect("piped")).lines();
    let hosts =
        lines.by_ref().map(|line| line.expect("UTF-8")).filter(|line| line.starts_with("host memory"));
    assert!(hosts.take(3).all(|line| !line.contains('\u{1b}')));
    running.interrupt();
    assert_eq!(running.end(), Some(0));
}

#[test]
fn no_color_leaves_the_colours_away() {
    let text = drawn(&["monitor", "--interval", "100ms"], &[("NO_COLOR", "1")]);
    assert!(!text.contains("\u{1b}[2m") && !text.contains("\u{1b}[1m"), "{text:?}");
    assert!(text.ends_with(SHOW_CURSOR), "{text:?}");
}

//! Drawing on a terminal: the stderr of the binary is a pseudo-terminal.

use std::{
    fs::File,
    io::Read,
    os::fd::{FromRawFd, OwnedFd},
    process::{Command, Stdio},
};

use crate::support::Folder;

/// Both ends of a pseudo-terminal.
pub(crate) fn pseudo_terminal(columns: u16) -> (File, OwnedFd) {
    let size = libc::winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut ours, mut theirs) = (0, 0);
    // SAFETY: the pointers are to locals of the types that the call writes and reads, the others may be null; the two
    // descriptors are new and nobody else's.
    unsafe {
        let null = std::ptr::null_mut();
        assert_eq!(
            libc::openpty(&mut ours, &mut theirs, null, std::ptr::null_mut(), &raw const size as *mut _),
            0
        );
        (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    }
}

/// What a command draws on its terminal of 100 columns.
fn drawn(mut command: Command) -> String {
    let (ours, theirs) = pseudo_terminal(100);
    command.stdout(Stdio::null()).stderr(theirs);
    shown(command, ours)
}

/// What a command prints to stdout on a terminal.
fn printed(mut command: Command, columns: u16) -> String {
    let (ours, theirs) = pseudo_terminal(columns);
    command.stdout(theirs).stderr(Stdio::null());
    shown(command, ours)
}

/// What a command writes to a terminal.
fn shown(mut command: Command, mut ours: File) -> String {
    command.stdin(Stdio::null()).env("TERM", "xterm-256color");
    let mut child = command.spawn().expect("the binary starts");
    // The command also holds the terminal open, so it is dropped.
    drop(command);
    let mut text = Vec::new();
    // After the last writer closes the terminal, Linux returns an error instead of the end of the file.
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = ours.read(&mut buffer) {
        text.extend_from_slice(&buffer[..read]);
    }
    child.wait().expect("a child of this process");
    String::from_utf8(text).expect("the terminal is UTF-8")
}

const RED: &str = "\u{1b}[31m";

#[test]
fn bars_are_drawn_on_a_terminal() {
    let folder = Folder::new();
    let text = drawn(folder.command(&["train", "--config", "tiny.toml", "--set", "train.steps=100"]));
    for part in [
        "epoch 1/3",
        "run",
        "100/100",
        "accuracy",
        "samples/s",
        "in use",
        "peak",
        "evaluate",
        "eval loss",
        "━",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_dumb_terminal_gets_lines() {
    let folder = Folder::new();
    let mut command = folder.command(&["train", "--config", "tiny.toml"]);
    command.env("TERM", "dumb");
    let (mut ours, theirs) = pseudo_terminal(100);
    let mut child = command.stdout(Stdio::null()).stderr(theirs).spawn().expect("the binary starts");
    drop(command);
    child.wait().expect("a child of this process");
    let mut text = [0; 8192];
    let read = ours.read(&mut text).expect("what was written");
    let text = String::from_utf8_lossy(&text[..read]);
    assert!(text.contains("step 2/6") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn errors_are_coloured_on_a_terminal_unless_no_color_is_set() {
    let folder = Folder::new();
    let wrong = || folder.command(&["train", "--config", "nowhere"]);
    assert!(drawn(wrong()).contains(RED));
    let mut plain = wrong();
    plain.env("NO_COLOR", "1");
    let text = drawn(plain);
    assert!(text.starts_with("error: there is no config `nowhere`"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn no_color_draws_bars_without_colours() {
    let folder = Folder::new();
    let mut command = folder.command(&["train", "--config", "tiny.toml"]);
    command.env("NO_COLOR", "1");
    let text = drawn(command);
    assert!(text.contains('━') && !text.contains("\u{1b}[36m"), "{text}");
}

#[test]
fn the_table_of_runs_fits_the_terminal() {
    let folder = Folder::new();
    folder.train(&["--quiet"]).success();
    let runs = |columns| {
        let mut command = folder.command(&["runs", "run"]);
        command.env("NO_COLOR", "1");
        printed(command, columns)
    };
    let wide = runs(200);
    assert!(wide.contains("loss") && wide.contains("started") && wide.contains('█'), "{wide}");
    let narrow = runs(80);
    assert!(narrow.contains("started") && narrow.contains("best"), "{narrow}");
    for line in narrow.lines() {
        assert!(line.trim_end().chars().count() <= 80, "{line}");
    }
}

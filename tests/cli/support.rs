//! Runs the binary in a temporary folder and shows its output.

use std::{
    fmt::{self, Write as _},
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
};

use serde_json::Value;

pub(crate) use crate::limits::limit;

/// A config that trains quickly: an LSTM of 8 units on the rows of the digits, 45 steps per epoch.
pub(crate) const TINY: &str = "\
[model]
name = 'lstm'
hidden = 8

[data]
source = 'digits'
layout = 'rows'
workers = 0

[train]
steps = 6

[run]
directory = 'run'
log_every = 2
";

/// A percentage of a peak without the lasting buffers of matrix products, as a limit below the peak.
pub(crate) fn percent_of_peak(peak_bytes: u64, percent: i64) -> String {
    let held = crate::limits::held_here();
    ((peak_bytes as i64 - held) * percent / 100 + held).to_string()
}

/// A temporary folder in which the binary runs, without `configs/`.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    /// A folder with `tiny.toml`.
    pub(crate) fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a temporary directory"));
        folder.write("tiny.toml", TINY);
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    pub(crate) fn write(&self, path: &str, contents: impl AsRef<[u8]>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("within the folder")).expect("a folder");
        fs::write(path, contents).expect("a file");
    }

    pub(crate) fn read(&self, path: &str) -> Vec<u8> {
        fs::read(self.at(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.prepared(Command::new(env!("CARGO_BIN_EXE_oomph")), arguments)
    }

    fn prepared(&self, mut command: Command, arguments: &[&str]) -> Command {
        command.args(arguments).current_dir(self.path()).env("XDG_CACHE_HOME", self.at("cache"));
        for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "RUST_BACKTRACE"] {
            command.env_remove(variable);
        }
        command
    }

    pub(crate) fn oomph(&self, arguments: &[&str]) -> Answer {
        let output = self.command(arguments).stdin(Stdio::null()).output().expect("the binary starts");
        Answer::new(&output, self)
    }

    /// Trains the tiny model, with more arguments.
    pub(crate) fn train(&self, arguments: &[&str]) -> Answer {
        self.oomph(&[&["train", "--config", "tiny.toml"], arguments].concat())
    }

    /// Starts a long training, and waits for its first step.
    pub(crate) fn start_long(&self) -> Running {
        self.start_long_of("tiny.toml", &[])
    }

    /// The same with another config and more arguments.
    pub(crate) fn start_long_of(&self, config: &str, more: &[&str]) -> Running {
        let arguments = ["train", "--config", config, "--set", "train.steps=10000000", "--json"];
        let mut running = self.start(&[&arguments, more].concat());
        running.wait_for("step");
        running
    }

    /// Starts the binary with these arguments.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        // Under `nohup`, which may have started the tests, the binary would inherit that SIGHUP is ignored.
        let mut start = Command::new("env");
        start.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_oomph")]);
        let mut command = self.prepared(start, arguments);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        Running { child, lines: Some(lines) }
    }
}

/// The exit code and the output of the binary, with the folder's path redacted.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Answer {
    pub(crate) fn new(output: &Output, folder: &Folder) -> Self {
        let path = folder.path().to_string_lossy();
        let text = |bytes: &[u8]| {
            String::from_utf8(bytes.to_vec()).expect("the output is UTF-8").replace(&*path, "[FOLDER]")
        };
        Self { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Fails unless the exit code is 0.
    #[track_caller]
    pub(crate) fn success(self) -> Self {
        assert_eq!(self.code, Some(0), "{self}");
        self
    }

    /// Stdout as JSON lines.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// The last line of stdout.
    #[track_caller]
    pub(crate) fn last_json(&self) -> Value {
        self.json_lines().pop().expect("a line of JSON")
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => writeln!(f, "exit code {code}")?,
            None => writeln!(f, "ended by a signal")?,
        }
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                writeln!(f, "--- {name}\n{}", text.trim_end())?;
            }
        }
        Ok(())
    }
}

/// A running command that prints events.
pub(crate) struct Running {
    child: Child,
    /// `None` once stdout is closed.
    lines: Option<BufReader<ChildStdout>>,
}

impl Running {
    /// Reads up to the next event of that name.
    pub(crate) fn wait_for(&mut self, event: &str) -> Value {
        loop {
            let mut line = String::new();
            let lines = self.lines.as_mut().expect("somebody reads");
            let read = lines.read_line(&mut line).expect("lines of text");
            assert_ne!(read, 0, "the training ended before an event `{event}`");
            let value: Value = serde_json::from_str(&line).expect("JSON");
            if value["event"] == event {
                return value;
            }
        }
    }

    pub(crate) fn signal(&self, signal: i32) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        // SAFETY: the id belongs to a child of this process that was not waited for, so it is not reused.
        assert_eq!(unsafe { libc::kill(id, signal) }, 0);
    }

    /// Closes stdout, as `head` does, and returns the exit code.
    pub(crate) fn stop_reading(mut self) -> Option<i32> {
        self.lines = None;
        self.end()
    }

    /// Waits for the end and returns the exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        self.child.wait().expect("a child of this process").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Kills the training of a failed test. A training that has ended cannot be killed, which is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command line with a mistake, and the files it needs.
pub(crate) struct Case {
    about: &'static str,
    prepare: Box<dyn Fn(&Folder)>,
    config: Option<&'static str>,
    arguments: Vec<&'static str>,
}

impl Case {
    pub(crate) fn new(about: &'static str, arguments: &[&'static str]) -> Self {
        Self { about, prepare: Box::new(|_| {}), config: None, arguments: arguments.to_vec() }
    }

    /// `train` with a config file of its own.
    pub(crate) fn config(about: &'static str, text: &'static str) -> Self {
        let arguments = ["train", "--config", "x.toml"].to_vec();
        Self { about, prepare: Box::new(|_| {}), config: Some(text), arguments }
    }

    /// `train` with the tiny config and more arguments.
    pub(crate) fn train(about: &'static str, arguments: &[&'static str]) -> Self {
        Self::new(about, &[&["train", "--config", "tiny.toml"], arguments].concat())
    }

    /// Prepares the folder before the command.
    pub(crate) fn after(mut self, prepare: impl Fn(&Folder) + 'static) -> Self {
        self.prepare = Box::new(prepare);
        self
    }

    fn answer(&self) -> Answer {
        let folder = Folder::new();
        if let Some(text) = self.config {
            folder.write("x.toml", text);
        }
        (self.prepare)(&folder);
        folder.oomph(&self.arguments)
    }
}

/// Runs all cases and compares their output. Each must fail without a panic.
#[track_caller]
pub(crate) fn check(name: &str, cases: &[Case]) {
    let mut all = String::new();
    for case in cases {
        let answer = case.answer();
        assert!(!answer.stderr.contains("panic") && !answer.stderr.contains("internal error"), "{answer}");
        assert!(matches!(answer.code, Some(1 | 2)), "{}: {answer}", case.about);
        writeln!(all, "## {}", case.about).expect("a string");
        for line in case.config.iter().flat_map(|text| text.lines()) {
            writeln!(all, "   | {line}").expect("a string");
        }
        writeln!(all, "$ oomph {}\n{answer}", case.arguments.join(" ")).expect("a string");
    }
    snapshot(name, &all);
}

/// Compares a text with the one in `snapshots/`.
#[track_caller]
pub(crate) fn snapshot(name: &str, text: &str) {
    let settings = || {
        let mut settings = insta::Settings::clone_current();
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings
    };
    settings().bind(|| insta::assert_snapshot!(name, text));
}

/// The text with every number as `N`, as numbers differ between machines.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut masked = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if !character.is_ascii_digit() {
            masked.push(character);
            continue;
        }
        while characters.next_if(|next| next.is_ascii_digit() || matches!(next, '.' | ',')).is_some() {}
        masked.push('N');
    }
    masked
}

/// The same without signs of differences and units of sizes and times.
pub(crate) fn without_units(text: &str) -> String {
    let replaced = |text: String, (unit, word): (&str, &str)| text.replace(&format!("N {unit}"), word);
    let times = ["µs", "ms", "s"].map(|unit| (unit, "TIME"));
    let amounts = ["B", "KiB", "MiB", "GiB"].map(|unit| (unit, "SIZE"));
    times.into_iter().chain(amounts).fold(text.replace(['+', '−'], ""), replaced)
}

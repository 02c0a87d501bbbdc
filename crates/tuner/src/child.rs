//! A training in a process of its own.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    process::{self, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};

use oomph_core::{
    child::{killed_by, last_line, tail},
    system::{ending_signal, in_own_group},
};

use crate::{bench::Request, news::News};

/// The longest line that is read; a longer one is no event.
const MOST_OF_A_LINE: u64 = 1 << 20;

/// The exit code of a training that ran out of memory.
const OUT_OF_MEMORY: i32 = 75;

/// A running training. Its process reads a [`Request`] from stdin, and prints events as JSON lines.
#[derive(Debug)]
pub struct Child {
    process: process::Child,
    lines: BufReader<ChildStdout>,
    stderr: JoinHandle<String>,
    stopper: Stopper,
}

/// Ends a training from any thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    stdin: Arc<Mutex<Option<ChildStdin>>>,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildExit {
    /// With the exit code of success.
    Success,
    /// It ran out of memory.
    OutOfMemory,
    /// Otherwise, in words.
    Failed(String),
}

impl Child {
    /// Starts a process and sends the request.
    ///
    /// # Errors
    /// The system starts no process.
    pub fn start(mut command: Command, request: &Request) -> io::Result<Self> {
        // A terminal sends Ctrl-C to the whole process group; only this process shall handle it.
        let mut process = in_own_group(&mut command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (stdin, stdout, stderr) = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(mut stderr)) = (stdin, stdout, stderr) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let stderr = thread::spawn(move || tail(&mut stderr));
        let line = serde_json::to_string(request)? + "\n";
        // If the process exited before it read the request, its exit status is the better error.
        let _ = stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush());
        let stopper = Stopper { stdin: Arc::new(Mutex::new(Some(stdin))) };
        Ok(Self { process, lines: BufReader::new(stdout), stderr, stopper })
    }

    /// Ends it from any thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// The next line, with its end; `None` after the last.
    pub fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        match self.lines.by_ref().take(MOST_OF_A_LINE).read_until(b'\n', &mut line) {
            Ok(1..) => Some(String::from_utf8_lossy(&line).into_owned()),
            Ok(0) | Err(_) => None,
        }
    }

    /// The next line, as an event.
    pub(crate) fn next(&mut self) -> Option<News> {
        self.line().map(|line| News::read(&line))
    }

    /// Waits for the end, after the last line.
    pub fn wait(mut self) -> ChildExit {
        let status = self.process.wait();
        drop(self.stopper.lock().take());
        let stderr = self.stderr.join().unwrap_or_default();
        match status {
            Ok(status) if status.success() => ChildExit::Success,
            Ok(status) if status.code() == Some(OUT_OF_MEMORY) => ChildExit::OutOfMemory,
            Ok(status) => ChildExit::Failed(in_words(status, &stderr)),
            Err(error) => ChildExit::Failed(format!("its process is lost: {error}")),
        }
    }
}

impl Stopper {
    /// Asks the training to finish its step, save and end.
    pub fn stop(&self) {
        drop(self.lock().take());
    }

    /// Ignores poisoning: taking the stdin is a single assignment.
    fn lock(&self) -> MutexGuard<'_, Option<ChildStdin>> {
        self.stdin.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn in_words(status: ExitStatus, stderr: &str) -> String {
    match ending_signal(status) {
        Some(signal) => killed_by(signal, stderr),
        None => {
            let code = status.code().unwrap_or_default();
            format!("its process exited with code {code}{}", last_line(stderr))
        }
    }
}

//! Trainings in processes of their own: the program starts itself again, and hears what came of it.
//!
//! What one training leaves behind in a process, as buffers of kernels and a fragmented heap, is not there for the
//! next; and what runs out of memory does not take the program with it. As it is the same program, a user's own models
//! are known there too.
//!
//! The child is told what to do by a line of JSON on its standard input, and answers in lines of JSON on its standard
//! output. Its standard input stays open as long as the parent lives: where that ends, however it does, the child ends.

mod child;
mod failure;
mod message;

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use oomph_config::Config;
use oomph_trainer::Rehearsal;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::{error::CliError, exit::Exit};

use self::message::{Message, Request};
pub(crate) use self::{
    child::run,
    failure::ProbeError,
    message::{Measured, Planned, Work},
};

/// The hidden command that a child is started with.
pub(crate) const COMMAND: &str = "probe";

/// Starts children, one at a time. SIGINT and SIGTERM end the one that runs, and those to come.
#[derive(Debug)]
pub(crate) struct Prober {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    child: Option<Child>,
    /// How to end, once a signal came.
    stopped: Option<Exit>,
}

/// A signal came: the program is to end so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopped(pub(crate) Exit);

/// What came of a child.
#[derive(Debug, Default)]
pub(crate) struct Probed {
    /// What it planned, where it came that far.
    pub(crate) planned: Option<Planned>,
    /// What it measured, where it came that far.
    pub(crate) measured: Option<Measured>,
    /// What it rehearsed, where it came that far.
    pub(crate) rehearsed: Option<Rehearsal>,
    /// What ended it otherwise.
    pub(crate) failure: Option<ProbeError>,
}

impl Prober {
    /// From now on signals end the children.
    ///
    /// # Errors
    /// Where the system does not let this process listen to signals.
    pub(crate) fn start() -> Result<Self, CliError> {
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(CliError::Signals)?;
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        let listen = move || {
            for signal in signals.forever() {
                let exit = if signal == SIGINT { Exit::Interrupted } else { Exit::Terminated };
                let mut state = lock(&shared);
                state.stopped.get_or_insert(exit);
                if let Some(child) = &mut state.child {
                    // Where it has ended already there is nothing to kill.
                    let _ = child.kill();
                }
            }
        };
        let spawned: io::Result<_> = thread::Builder::new().name("oomph-signals".into()).spawn(listen);
        spawned.map_err(CliError::Signals)?;
        Ok(Self { state })
    }

    /// Does some work with a configuration in a child. `on_step` is told how many are done.
    ///
    /// # Errors
    /// [`Stopped`] where a signal came. Whatever else goes wrong is a result.
    pub(crate) fn probe(
        &self,
        config: &Config,
        work: Work,
        on_step: &mut dyn FnMut(usize),
    ) -> Result<Probed, Stopped> {
        let request = Request { name: config.name().to_owned(), config: config.to_toml(), work };
        let mut probed = Probed::default();
        let Streams { stdin, stdout, stderr } = match self.spawn(&request)? {
            Ok(streams) => streams,
            Err(error) => return Ok(Probed { failure: Some(ProbeError::Start(error)), ..probed }),
        };
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // A user's model may write to standard output too.
            match serde_json::from_str(&line) {
                Ok(Message::Planned(planned)) => probed.planned = Some(planned),
                Ok(Message::Step { step }) => on_step(step),
                Ok(Message::Measured(measured)) => probed.measured = Some(measured),
                Ok(Message::Rehearsed(rehearsed)) => probed.rehearsed = Some(rehearsed),
                Ok(Message::Error { message, causes, hint, out_of_memory }) => {
                    // Which device it was, and what it was.
                    let message = [vec![message], causes].concat().join(": ");
                    probed.failure = Some(ProbeError::Failed { message, hint, report: out_of_memory });
                }
                Err(_) => {}
            }
        }
        let ended = self.wait();
        drop(stdin);
        let said = stderr.join().unwrap_or_default();
        if let Some(exit) = lock(&self.state).stopped {
            return Err(Stopped(exit));
        }
        let has_result = probed.measured.is_some() || probed.rehearsed.is_some();
        probed.failure = failure::of(ended, probed.failure, has_result, &said);
        Ok(probed)
    }

    /// The streams of a new child that was told its request.
    fn spawn(&self, request: &Request) -> Result<io::Result<Streams>, Stopped> {
        let mut state = lock(&self.state);
        if let Some(exit) = state.stopped {
            return Err(Stopped(exit));
        }
        // While the lock is held, so that a signal finds the child.
        Ok(spawn(request).map(|(child, streams)| {
            state.child = Some(child);
            streams
        }))
    }

    /// How the child ended, once it did. Signals can end it meanwhile.
    fn wait(&self) -> io::Result<ExitStatus> {
        loop {
            {
                let mut state = lock(&self.state);
                let Some(child) = &mut state.child else { return Err(io::ErrorKind::NotFound.into()) };
                if let Some(status) = child.try_wait()? {
                    state.child = None;
                    return Ok(status);
                }
            }
            // It has closed its output, so it is about to end.
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// No child outlives what asked for it.
impl Drop for Prober {
    fn drop(&mut self) {
        if let Some(mut child) = lock(&self.state).child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

struct Streams {
    stdin: ChildStdin,
    stdout: ChildStdout,
    /// Gives the end of what the child wrote to standard error.
    stderr: JoinHandle<String>,
}

fn spawn(request: &Request) -> io::Result<(Child, Streams)> {
    // Not by its path: the file may have been replaced since it was started.
    let mut child = Command::new("/proc/self/exe")
        .arg(COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A terminal sends Ctrl-C to all of a group: it is this process that decides what comes of it.
        .process_group(0)
        .spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(mut stderr)) = (stdin, stdout, stderr) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let stderr = thread::spawn(move || tail(&mut stderr));
    let line = serde_json::to_string(request)? + "\n";
    // Where it ended before it read, how it ended tells more.
    let _ = stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush());
    Ok((child, Streams { stdin, stdout, stderr }))
}

/// The end of a stream, read until it is over.
fn tail(stream: &mut dyn Read) -> String {
    const MOST: usize = 4096;
    let (mut kept, mut buffer) = (Vec::new(), [0; MOST]);
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..read]);
        kept.drain(..kept.len().saturating_sub(MOST));
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}

/// What a panic left behind is whole: every change is a single assignment.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_stream_the_end_is_kept() {
        let text = "x".repeat(10_000) + "the end\n";
        let kept = tail(&mut text.as_bytes());
        assert!(kept.ends_with("the end") && kept.len() <= 4096);
    }
}

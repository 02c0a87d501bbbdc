//! Runs a training in a child process, which is this same program.
//!
//! A training leaves kernel buffers and a fragmented heap behind, which would disturb the next measurement in the same
//! process. A child that runs out of memory does not end the parent. The child knows a user's own models, since it is
//! the same binary.
//!
//! The parent writes one line of JSON to the child's stdin, and reads lines of JSON from its stdout. The child exits
//! when its stdin closes, so it never outlives the parent.

mod child;
/// Why a child has no result.
pub mod failure;
/// What parent and child tell each other.
pub mod message;
mod profiled;

use std::{
    io::{self, BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use oomph_config::Config;
use oomph_core::{
    child::tail,
    system::{in_own_group, this_program},
};
use oomph_trainer::measure::Rehearsal;

use crate::{
    error::CliError,
    exit::Exit,
    signals::{self, SIGINT, SIGTERM},
};

pub use self::{
    child::run,
    message::{Measured, Planned, Work},
    profiled::{CardAccount, PlannedAndMeasured, Profiled},
};
use self::{
    failure::ProbeError,
    message::{Message, Request},
};

/// The hidden command that a child is started with.
pub const COMMAND: &str = "probe";

/// Starts children, one at a time. SIGINT and SIGTERM kill the running child and prevent new ones.
#[derive(Debug)]
pub struct Prober {
    state: Arc<Mutex<ChildState>>,
}

#[derive(Debug, Default)]
struct ChildState {
    child: Option<Child>,
    /// The exit code of the program, once a signal arrived.
    stopped: Option<Exit>,
}

/// A signal arrived: the program exits with this code.
#[derive(Clone, Copy, Debug)]
pub struct Stopped(pub Exit);

/// The result of a child.
#[derive(Debug, Default)]
pub struct Probed {
    /// Its plan, if it got that far.
    pub planned: Option<Planned>,
    /// Its measurement, if it got that far.
    pub measured: Option<Measured>,
    /// Its memory, planned and measured, if it got that far.
    pub profiled: Option<Profiled>,
    /// Its rehearsal, if it got that far.
    pub rehearsed: Option<Rehearsal>,
    /// Why it failed, if it did.
    pub failure: Option<ProbeError>,
}

impl Prober {
    /// Installs the signal handlers.
    ///
    /// # Errors
    /// If the system refuses signal handlers.
    pub fn start() -> Result<Self, CliError> {
        let state = Arc::new(Mutex::new(ChildState::default()));
        let shared = state.clone();
        signals::handle(&[SIGINT, SIGTERM], move |signal| {
            let exit = if signal == SIGINT { Exit::Interrupted } else { Exit::Terminated };
            let mut state = lock(&shared);
            state.stopped.get_or_insert(exit);
            if let Some(child) = &mut state.child {
                // A child that has exited cannot be killed, which is no error.
                let _ = child.kill();
            }
        })?;
        Ok(Self { state })
    }

    /// Runs work with a configuration in a child. `on_step` gets the number of finished steps.
    ///
    /// # Errors
    /// [`Stopped`] after a signal. Any other failure is part of the result.
    pub fn probe(
        &self,
        config: &Config,
        work: Work,
        on_step: &mut dyn FnMut(usize),
    ) -> Result<Probed, Stopped> {
        self.probe_with(config, work, &[], on_step)
    }

    /// The same in a child with more environment variables.
    ///
    /// # Errors
    /// Those of [`probe`](Self::probe).
    pub fn probe_with(
        &self,
        config: &Config,
        work: Work,
        variables: &[(&str, PathBuf)],
        on_step: &mut dyn FnMut(usize),
    ) -> Result<Probed, Stopped> {
        let request = Request { name: config.name().to_owned(), config: config.to_toml(), work };
        let mut probed = Probed::default();
        let (stdin, stdout, stderr) = match self.spawn(&request, variables)? {
            Ok(streams) => streams,
            Err(error) => return Ok(Probed { failure: Some(ProbeError::Start(error)), ..probed }),
        };
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // A user's model may write to stdout too.
            match serde_json::from_str(&line) {
                Ok(Message::Planned(planned)) => probed.planned = Some(planned),
                Ok(Message::Step { step }) => on_step(step),
                Ok(Message::Measured(measured)) => probed.measured = Some(measured),
                Ok(Message::Profiled(profiled)) => probed.profiled = Some(profiled),
                Ok(Message::Rehearsed(rehearsed)) => probed.rehearsed = Some(rehearsed),
                Ok(Message::Error { message, causes, hint, out_of_memory }) => {
                    // The causes name the device and the reason.
                    let message = [vec![message], causes].concat().join(": ");
                    let (report, is_out_of_memory) = (out_of_memory, false);
                    probed.failure = Some(ProbeError::Failed { message, hint, report, is_out_of_memory });
                }
                Err(_) => {}
            }
        }
        let ended = self.wait();
        drop(stdin);
        let stderr = stderr.join().unwrap_or_default();
        if let Some(exit) = lock(&self.state).stopped {
            return Err(Stopped(exit));
        }
        let has_result = probed.measured.is_some() || probed.profiled.is_some() || probed.rehearsed.is_some();
        probed.failure = failure::of(ended, probed.failure, has_result, &stderr);
        Ok(probed)
    }

    /// Starts a child, sends the request and returns its streams.
    fn spawn(
        &self,
        request: &Request,
        variables: &[(&str, PathBuf)],
    ) -> Result<io::Result<Streams>, Stopped> {
        let mut state = lock(&self.state);
        if let Some(exit) = state.stopped {
            return Err(Stopped(exit));
        }
        // The lock is held meanwhile, so that the signal thread finds the child.
        Ok(spawn(request, variables).map(|(child, streams)| {
            state.child = Some(child);
            streams
        }))
    }

    /// Waits for the child to exit. The lock is released between polls, so that a signal can kill the child.
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
            // The child has closed its stdout, so it exits soon.
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Kills the child that still runs.
impl Drop for Prober {
    fn drop(&mut self) {
        if let Some(mut child) = lock(&self.state).child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The child's stdin, its stdout, and the thread that returns the end of its stderr.
type Streams = (ChildStdin, ChildStdout, JoinHandle<String>);

fn spawn(request: &Request, variables: &[(&str, PathBuf)]) -> io::Result<(Child, Streams)> {
    // Not the path of the program: its file may have been replaced since the start.
    let mut command = Command::new(this_program());
    // A terminal sends Ctrl-C to the whole process group; only the parent shall handle it.
    let mut child = in_own_group(&mut command)
        .arg(COMMAND)
        .envs(variables.iter().cloned())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(mut stderr)) = (stdin, stdout, stderr) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let stderr = thread::spawn(move || tail(&mut stderr));
    let line = serde_json::to_string(request)? + "\n";
    // If the child exited before it read the request, its exit status is the better error.
    let _ = stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush());
    Ok((child, (stdin, stdout, stderr)))
}

/// Ignores poisoning: every change is a single assignment, so a panic leaves no half-changed state.
fn lock(state: &Mutex<ChildState>) -> MutexGuard<'_, ChildState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_stream_is_kept() {
        let text = "x".repeat(10_000) + "the end\n";
        let kept = tail(&mut text.as_bytes());
        assert!(kept.ends_with("the end") && kept.len() <= 4096);
    }
}

mod backoff;
mod engine;
mod shares;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

use self::engine::{Closed, Command, Facts};
use super::{Exchange, Gathered, Group, GroupError, Pending, collectives::check_ends, wire::Hosts};

/// The time that an aborting rank gives its thread to notify the others.
const TELL: Duration = Duration::from_secs(2);

/// A rank that is a process of an MPI job. Made by [`mpi_group`].
///
/// Dropping it closes it. After an error it does not wait, since MPI could
/// block forever on a hanging rank. Open MPI's mpirun then ends the whole job, as it does for an exit code other than 0.
/// [`terminate`](Self::terminate) ends the job under any launcher.
#[derive(Debug)]
pub struct MpiGroup {
    rank: usize,
    local_rank: usize,
    local_size: usize,
    hosts: Hosts,
    commands: Sender<Command>,
    /// Receives a message when the group's thread has ended.
    closed: Mutex<Receiver<Closed>>,
    timeout: Option<Duration>,
    has_finished: AtomicBool,
    has_closed: AtomicBool,
}

/// Initialises MPI and makes a group of all processes of the job. It works once per process.
///
/// The group's own thread makes all calls of MPI. It moves values while this process computes. While messages are
/// pending it polls MPI: at first without a pause, then up to 1 ms apart. Beside the values it holds up to 16 MiB, and
/// the buffers of the MPI library.
///
/// A collective fails with the names of the missing ranks, and the group with it, if other ranks do not join within
/// `timeout` of this one or make no progress for that long. So does the start, and the end after
/// [`finish`](MpiGroup::finish). Without a timeout it waits forever. The launcher notices a killed process and ends the job.
///
/// An MPI library that cannot be initialised ends the process with its own message. A process without a launcher is a
/// group of one; see [`launched_world_size`](super::launched_world_size).
///
/// # Errors
/// Where MPI is already initialised, or was built for programs without threads; where the ranks do not meet in time.
pub fn mpi_group(timeout: Option<Duration>) -> Result<MpiGroup, GroupError> {
    let (commands, coming) = channel();
    let (tell_facts, facts) = channel();
    let (tell_closed, closed) = channel();
    thread::Builder::new()
        .name("oomph-mpi".into())
        .spawn(move || engine::run(timeout, coming, &tell_facts, &tell_closed))
        .map_err(|source| GroupError::NoThread { source: Arc::new(source) })?;
    let found = match timeout {
        Some(waited) => facts.recv_timeout(waited).map_err(|error| match error {
            RecvTimeoutError::Timeout => GroupError::NotStarted { waited },
            RecvTimeoutError::Disconnected => GroupError::ThreadDied,
        })?,
        None => facts.recv().unwrap_or(Err(GroupError::ThreadDied)),
    };
    let Facts { rank, local_rank, local_size, hosts } = found?;
    Ok(MpiGroup {
        rank,
        local_rank,
        local_size,
        hosts,
        commands,
        closed: Mutex::new(closed),
        timeout,
        has_finished: AtomicBool::new(false),
        has_closed: AtomicBool::new(false),
    })
}

impl MpiGroup {
    /// The number of this rank on its machine, from 0: the index of the GPU that it may use.
    pub fn local_rank(&self) -> usize {
        self.local_rank
    }

    /// The number of ranks on this machine.
    pub fn local_size(&self) -> usize {
        self.local_size
    }

    /// The name of the machine of a rank, as MPI gives it.
    pub fn host(&self, rank: usize) -> Option<&str> {
        self.hosts.0.get(rank).map(AsRef::as_ref)
    }

    /// Waits until all ranks have called it: they have nothing more to do. From then on a rank that is late hangs, and
    /// [`close`](Self::close) waits for it no longer than for a collective.
    ///
    /// # Errors
    /// As a collective.
    pub fn finish(&self) -> Result<(), GroupError> {
        self.barrier()?;
        self.has_finished.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Waits until all ranks have closed their group, and finalises MPI. Collectives fail from then on. After an error the
    /// process has to exit by itself: the MPI library may wait for a hanging rank for ever.
    ///
    /// # Errors
    /// After [`finish`](Self::finish), if a rank does not come in time; [`GroupError::NotEnded`] if MPI itself waits for it.
    pub fn close(&self) -> Result<(), GroupError> {
        let has_finished = self.has_finished.load(Ordering::Relaxed);
        if self.has_closed.swap(true, Ordering::Relaxed)
            || self.commands.send(Command::Close { has_finished }).is_err()
        {
            return Ok(());
        }
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        match self.timeout.filter(|_| has_finished) {
            // The thread takes up to once the timeout for the other ranks, and MPI may take it again.
            Some(waited) => match closed.recv_timeout(2 * waited) {
                Ok(closed) => closed,
                Err(RecvTimeoutError::Timeout) => Err(GroupError::NotEnded { waited }),
                Err(RecvTimeoutError::Disconnected) => Ok(()),
            },
            None => closed.recv().unwrap_or(Ok(())),
        }
    }

    /// Ends every process of the job with `code`, hanging ones and this one included. Call it after the user has seen the
    /// error: messages of other ranks are lost, and MPI may print its own.
    pub fn terminate(&self, code: i32) -> ! {
        if self.commands.send(Command::Terminate(code)).is_ok() {
            // MPI ends the process from the other thread.
            thread::sleep(TELL);
        }
        std::process::exit(code)
    }
}

impl Group for MpiGroup {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world_size(&self) -> usize {
        self.hosts.0.len()
    }

    fn start_all_reduce(&self, values: Vec<f32>) -> Pending {
        let (answer, pending) = Pending::new();
        // If the thread has ended, the answer is dropped and `pending` returns the error.
        _ = self.commands.send(Command::Reduce(values, answer));
        pending
    }

    fn start_reduce_scatter(&self, values: Vec<f32>, ends: &[usize]) -> Pending {
        check_ends(ends, self.world_size(), values.len());
        let (answer, pending) = Pending::new();
        _ = self.commands.send(Command::ReduceScatter(values, ends.into(), answer));
        pending
    }

    fn start_all_gather(&self, values: Vec<f32>) -> Pending<Gathered> {
        let (answer, pending) = Pending::new();
        _ = self.commands.send(Command::Gather(values, answer));
        pending
    }

    fn exchange(&self, what: Exchange, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>, GroupError> {
        let (answer, coming) = channel();
        _ = self.commands.send(Command::Exchange(what, bytes, answer));
        coming.recv().unwrap_or(Err(GroupError::ThreadDied))
    }

    fn abort(&self, reason: &str) {
        let (told, telling) = channel();
        if self.commands.send(Command::Abort(reason.to_owned(), told)).is_ok() {
            _ = telling.recv_timeout(TELL);
        }
    }
}

impl Drop for MpiGroup {
    fn drop(&mut self) {
        if thread::panicking() {
            self.abort("it panicked");
        }
        // The thread no longer needs this process; it keeps the memory that MPI may still read.
        _ = self.close();
    }
}

mod backoff;
mod engine;
mod shares;
mod wire;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};

use self::{
    engine::{Closed, Command, Facts},
    wire::Hosts,
};
use super::{Exchange, Group, GroupError, Pending};

/// How long a rank that gives up waits until its own thread has told the others.
const TELL: Duration = Duration::from_secs(2);

/// A rank that is a process of an MPI job. Made by [`mpi_group`].
///
/// Dropping it waits until all ranks dropped theirs, and finalises MPI. After an error it does not: MPI could wait
/// forever for a rank that hangs. Open MPI's mpirun ends the whole job where a process ends so, or with an exit code
/// other than 0; [`terminate`](Self::terminate) does it under any launcher.
#[derive(Debug)]
pub struct MpiGroup {
    rank: usize,
    local_rank: usize,
    local_size: usize,
    hosts: Hosts,
    commands: Sender<Command>,
    /// Told by the thread of the group when it is done.
    closed: Mutex<Receiver<Closed>>,
}

/// Initialises MPI and makes a group of all processes of the job. It can be done once in a process.
///
/// All calls of MPI are made by one thread of the group's own. It moves what was started while this process computes,
/// and asks MPI again and again while something is under way: at first without a pause, then up to 1 ms apart. Beside
/// the values it holds up to 16 MiB, and what the MPI library takes for itself.
///
/// Where other ranks do not come to a collective within `timeout` of this one, or stand still that long while values
/// move, it fails with their names, and the group with it; without a limit it waits forever. A process that is killed is
/// noticed by the launcher, which ends the job.
///
/// An MPI library that cannot be initialised ends the process with a message of its own. A process that was not started
/// by a launcher is a group of one; see [`launched_world_size`](super::launched_world_size).
///
/// # Errors
/// Where MPI was initialised before, or was built for programs without threads.
pub fn mpi_group(timeout: Option<Duration>) -> Result<MpiGroup, GroupError> {
    let (commands, coming) = channel();
    let (tell_facts, facts) = channel();
    let (tell_closed, closed) = channel();
    thread::Builder::new()
        .name("oomph-mpi".into())
        .spawn(move || engine::run(timeout, coming, &tell_facts, &tell_closed))
        .map_err(|source| GroupError::NoThread { source: Arc::new(source) })?;
    let Facts { rank, local_rank, local_size, hosts } =
        facts.recv().unwrap_or(Err(GroupError::ThreadDied))?;
    Ok(MpiGroup { rank, local_rank, local_size, hosts, commands, closed: Mutex::new(closed) })
}

impl MpiGroup {
    /// The number of this rank among those of its machine, from 0: which of the machine's GPUs it may take.
    pub fn local_rank(&self) -> usize {
        self.local_rank
    }

    /// How many ranks this machine has.
    pub fn local_size(&self) -> usize {
        self.local_size
    }

    /// The name of the machine that a rank runs on, as MPI tells it.
    pub fn host(&self, rank: usize) -> Option<&str> {
        self.hosts.0.get(rank).map(AsRef::as_ref)
    }

    /// Ends every process of the job, those that hang too, this one among them, with `code`. For after an error, once
    /// the user was told: what other ranks still had to say is lost, and MPI may say something of its own.
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
        // Where the thread is gone the answer is dropped, which `pending` tells.
        _ = self.commands.send(Command::Reduce(values, answer));
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
        if self.commands.send(Command::Close).is_err() {
            return;
        }
        let closed = self.closed.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Either way the thread needs nothing of this process any more; the memory that MPI may still read stays its.
        _ = closed.recv();
    }
}

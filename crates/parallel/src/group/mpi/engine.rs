//! The thread that makes all calls of MPI.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::mpsc::{Receiver, Sender},
    thread,
    time::{Duration, Instant},
};

use mpi::{
    Tag, Threading,
    environment::{Universe, initialize_with_threading, processor_name},
    point_to_point::MatchedReceiveVec,
    request::{LocalScope, Request, scope},
    topology::SimpleCommunicator,
    traits::{Communicator, CommunicatorCollectives, Destination, Equivalence, Source},
};

use super::{
    backoff::Backoff,
    shares::{cut, share},
};
use crate::group::{
    Exchange, Gathered, GroupError, Operation,
    pending::{Answer, Moved},
    sum::sum,
    wire::{Farewell, Header, Hosts, header, operation},
};

/// A request of a rank to its thread.
#[derive(Debug)]
pub(super) enum Command {
    Reduce(Vec<f32>, Answer),
    /// The values, and where the share of each rank ends.
    ReduceScatter(Vec<f32>, Box<[usize]>, Answer),
    Gather(Vec<f32>, Answer<Gathered>),
    Exchange(Exchange, Vec<u8>, GatheredTo),
    /// Tells the other ranks why this rank aborts, then answers the sender.
    Abort(String, Sender<()>),
    Terminate(i32),
    /// Waits for the other ranks, and finalises MPI. A rank may work long after its last collective, unless all have
    /// finished: then one that is late hangs.
    Close {
        has_finished: bool,
    },
}

pub(super) type GatheredTo = Sender<Result<Vec<Vec<u8>>, GroupError>>;

/// The job as MPI reports it.
pub(super) struct Facts {
    pub(super) rank: usize,
    pub(super) local_rank: usize,
    pub(super) local_size: usize,
    pub(super) hosts: Hosts,
}

/// How the thread has ended. After an error it does nothing more.
pub(super) type Closed = Result<(), GroupError>;

const HEADERS: Tag = 1;
const VALUES: Tag = 2;
const FAREWELLS: Tag = 3;

/// Values summed at a time: 16 MiB, which bounds the memory beside the values.
const ROUND: usize = 4 << 20;
/// MPI counts the elements of a message in 32 bits.
const LARGEST_MESSAGE: usize = 1 << 28;
/// The longest time for sending farewells.
const TELL: Duration = Duration::from_millis(500);
/// How long a rank listens for timeouts of other ranks.
const HEAR: Duration = Duration::from_millis(300);
const LOOK: Duration = Duration::from_millis(1);

/// Runs until the group is closed; where it failed, for as long as the process.
pub(super) fn run(
    timeout: Option<Duration>,
    commands: Receiver<Command>,
    facts: &Sender<Result<Facts, GroupError>>,
    closed: &Sender<Closed>,
) {
    let universe = match initialize() {
        Ok(universe) => universe,
        Err(error) => {
            _ = facts.send(Err(error));
            return;
        }
    };
    let (communicator, found) = job(&universe);
    let mut engine = Engine {
        rank: found.rank,
        hosts: found.hosts.clone(),
        communicator,
        timeout,
        commands,
        backlog: VecDeque::new(),
        done: vec![None; found.hosts.0.len()],
        collective: Collective::NONE,
        asking: None,
        aborting: None,
        scratch: Vec::new(),
        is_closing: false,
        closed: closed.clone(),
    };
    if facts.send(Ok(found)).is_ok() {
        engine.serve();
    }
    drop(engine);
    drop(universe);
    _ = closed.send(Ok(()));
}

fn initialize() -> Result<Universe, GroupError> {
    // The thread that initialised MPI makes all calls; other threads only compute.
    let needed = Threading::Funneled;
    let (universe, provided) = initialize_with_threading(needed).ok_or(GroupError::MpiInitialized)?;
    if provided < needed { Err(GroupError::MpiWithoutThreads) } else { Ok(universe) }
}

/// A communicator for this group alone, so that other messages cannot interfere, and the facts of the job.
fn job(universe: &Universe) -> (SimpleCommunicator, Facts) {
    const LONGEST_NAME: usize = 256;
    let communicator = universe.world().duplicate();
    let local = communicator.split_shared(communicator.rank());
    let mut name = [0_u8; LONGEST_NAME];
    let bytes = processor_name().unwrap_or_default().into_bytes();
    name.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
    let mut names = vec![0; LONGEST_NAME * communicator.size() as usize];
    communicator.all_gather_into(&name[..], &mut names[..]);
    let hosts = names.chunks(LONGEST_NAME).map(|name| {
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(LONGEST_NAME);
        String::from_utf8_lossy(&name[..end]).into()
    });
    let facts = Facts {
        rank: communicator.rank() as usize,
        local_rank: local.rank() as usize,
        local_size: local.size() as usize,
        hosts: Hosts(hosts.collect()),
    };
    (communicator, facts)
}

struct Engine {
    communicator: SimpleCommunicator,
    rank: usize,
    hosts: Hosts,
    timeout: Option<Duration>,
    commands: Receiver<Command>,
    /// Commands that arrived while another was running.
    backlog: VecDeque<Command>,
    /// The number of collectives of each rank that has ended.
    done: Vec<Option<u64>>,
    collective: Collective,
    /// The sender that waits for the running command.
    asking: Option<Asking>,
    /// The sender that waits until the others know that this rank aborts.
    aborting: Option<Sender<()>>,
    scratch: Vec<f32>,
    /// Whether this rank has ended and waits for the others.
    is_closing: bool,
    closed: Sender<Closed>,
}

/// The running collective.
#[derive(Clone, Copy)]
struct Collective {
    operation: Operation,
    /// From 1.
    number: u64,
}

impl Collective {
    const NONE: Self = Self { operation: Operation::Exchange(Exchange::Barrier), number: 0 };
}

enum Asking {
    Sums(Answer),
    Values(Answer<Gathered>),
    Bytes(GatheredTo),
}

/// A pending message, from or to a peer.
struct Message<'a, 's, T> {
    peer: usize,
    is_coming: bool,
    request: Request<'a, [T], &'s LocalScope<'a>>,
}

impl<T> Message<'_, '_, T> {
    /// Polls MPI; `None` once the message is received or sent.
    fn still_under_way(self) -> Option<Self> {
        let Self { peer, is_coming, request } = self;
        request.test().err().map(|request| Self { peer, is_coming, request })
    }
}

impl Engine {
    fn serve(&mut self) {
        loop {
            let next = self.backlog.pop_front().map_or_else(|| self.commands.recv(), Ok);
            // `recv` fails once all senders are dropped; they send `Close` first.
            match next.unwrap_or(Command::Close { has_finished: false }) {
                Command::Reduce(values, answer) => {
                    self.asking = Some(Asking::Sums(answer));
                    let summed = self.all_reduce(values);
                    if let Some(Asking::Sums(answer)) = self.asking.take() {
                        _ = answer.send(Ok(summed));
                    }
                }
                Command::ReduceScatter(values, ends, answer) => {
                    self.asking = Some(Asking::Sums(answer));
                    let summed = self.reduce_scatter(values, &ends);
                    if let Some(Asking::Sums(answer)) = self.asking.take() {
                        _ = answer.send(Ok(summed));
                    }
                }
                Command::Gather(values, answer) => {
                    self.asking = Some(Asking::Values(answer));
                    let gathered = self.gather(values);
                    if let Some(Asking::Values(answer)) = self.asking.take() {
                        _ = answer.send(Ok(gathered));
                    }
                }
                Command::Exchange(what, bytes, answer) => {
                    self.asking = Some(Asking::Bytes(answer));
                    let gathered = self.exchange(what, bytes);
                    if let Some(Asking::Bytes(answer)) = self.asking.take() {
                        _ = answer.send(Ok(gathered));
                    }
                }
                Command::Abort(reason, told) => {
                    let error = self.give_up(reason, told);
                    self.fail(error)
                }
                Command::Terminate(code) => self.communicator.abort(code),
                Command::Close { has_finished } => {
                    self.timeout = self.timeout.filter(|_| has_finished);
                    return self.close();
                }
            }
        }
    }

    fn peers(&self) -> impl Iterator<Item = usize> + use<> {
        let rank = self.rank;
        (0..self.hosts.0.len()).filter(move |peer| *peer != rank)
    }

    fn give_up(&mut self, reason: String, told: Sender<()>) -> GroupError {
        self.aborting = Some(told);
        GroupError::Aborted { rank: self.hosts.member(self.rank), reason }
    }

    /// Waits until every rank joined, and returns their headers.
    fn meet(&mut self, operation: Operation, bytes: usize) -> Vec<Header> {
        self.collective = Collective { operation, number: self.collective.number + 1 };
        let own = header(operation, bytes);
        let mut headers = vec![own; self.hosts.0.len()];
        let outgoing: Vec<_> = self.peers().map(|peer| (peer, &own[..])).collect();
        let incoming = headers.iter_mut().map(|header| &mut header[..]).enumerate();
        let incoming = incoming.filter(|(peer, _)| *peer != self.rank).collect();
        self.transfer(HEADERS, &outgoing, incoming);
        if headers.iter().any(|header| header[..2] != own[..2]) {
            let asked = headers.iter().map(|header| self::operation(*header)).collect();
            self.fail(GroupError::Mismatch { number: self.collective.number, asked });
        }
        headers
    }

    /// Each rank receives its share of the values from all ranks, sums it and sends the sums to all.
    fn all_reduce(&mut self, mut values: Vec<f32>) -> Moved {
        self.meet(Operation::AllReduce { length: values.len() }, 0);
        let met = Instant::now();
        for round in values.chunks_mut(ROUND) {
            self.reduce_round(round);
        }
        Moved { values, met, finished: Instant::now() }
    }

    /// Each rank receives its share of the values from all ranks and sums it.
    fn reduce_scatter(&mut self, mut values: Vec<f32>, ends: &[usize]) -> Moved {
        self.meet(Operation::ReduceScatter { length: values.len() }, 0);
        let met = Instant::now();
        let share = |rank: usize| rank.checked_sub(1).map_or(0, |before| ends[before])..ends[rank];
        let longest = (0..ends.len()).map(|rank| share(rank).len()).max().unwrap_or(0);
        let step = (ROUND / ends.len()).max(1);
        for begin in (0..longest).step_by(step) {
            self.scatter_round(&mut values, |rank| {
                let Range { start, end } = share(rank);
                end.min(start + begin)..end.min(start + begin + step)
            });
        }
        let own = share(self.rank);
        values.copy_within(own.clone(), 0);
        values.truncate(own.len());
        Moved { values, met, finished: Instant::now() }
    }

    /// Sums the piece of this rank into its own values.
    fn scatter_round(&mut self, values: &mut [f32], piece: impl Fn(usize) -> Range<usize>) {
        let own = piece(self.rank);
        let others = self.hosts.0.len() - 1;
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(scratch.len().max(own.len() * others), 0.0);
        let slices = || vec![own.len(); others];
        let outgoing: Vec<_> = self.peers().map(|peer| (peer, &values[piece(peer)])).collect();
        let incoming = self.peers().zip(cut(&mut scratch, slices())).collect();
        self.transfer(VALUES, &outgoing, incoming);
        let mut parts = cut(&mut scratch, slices());
        parts.insert(self.rank, &mut values[own]);
        sum(&mut parts, self.rank..self.rank + 1);
        self.scratch = scratch;
    }

    fn gather(&mut self, values: Vec<f32>) -> Moved<Gathered> {
        let headers = self.meet(Operation::GatherValues, values.len());
        let met = Instant::now();
        let lengths = headers.iter().map(|[.., length]| *length as usize);
        let mut gathered: Vec<_> = lengths.map(|length| vec![0.0; length]).collect();
        let outgoing: Vec<_> = self.peers().map(|peer| (peer, &values[..])).collect();
        let incoming = gathered.iter_mut().map(Vec::as_mut_slice).enumerate();
        let incoming = incoming.filter(|(peer, _)| *peer != self.rank).collect();
        self.transfer(VALUES, &outgoing, incoming);
        gathered[self.rank] = values;
        Moved { values: gathered.into(), met, finished: Instant::now() }
    }

    fn reduce_round(&mut self, values: &mut [f32]) {
        let (rank, world_size, length) = (self.rank, self.hosts.0.len(), values.len());
        let share = |peer| share(length, world_size, peer);
        let own = share(rank);
        let mut scratch = std::mem::take(&mut self.scratch);
        let needed = own.len() * (world_size - 1);
        scratch.resize(scratch.len().max(needed), 0.0);

        let outgoing: Vec<_> = self.peers().map(|peer| (peer, &values[share(peer)])).collect();
        let slices = || vec![own.len(); world_size - 1];
        let incoming = self.peers().zip(cut(&mut scratch, slices())).collect();
        self.transfer(VALUES, &outgoing, incoming);

        let mut parts = cut(&mut scratch, slices());
        parts.insert(rank, &mut values[own]);
        sum(&mut parts, rank..rank + 1);

        let mut shares = cut(values, (0..world_size).map(|peer| share(peer).len()));
        let own = &*shares.remove(rank);
        let outgoing: Vec<_> = self.peers().map(|peer| (peer, own)).collect();
        let incoming = self.peers().zip(shares).collect();
        self.transfer(VALUES, &outgoing, incoming);
        self.scratch = scratch;
    }

    fn exchange(&mut self, what: Exchange, bytes: Vec<u8>) -> Vec<Vec<u8>> {
        let headers = self.meet(Operation::Exchange(what), bytes.len());
        let mut gathered: Vec<_> = headers.iter().map(|[.., bytes]| vec![0; *bytes as usize]).collect();
        let outgoing: Vec<_> = self.peers().map(|peer| (peer, &bytes[..])).collect();
        let incoming = gathered.iter_mut().map(Vec::as_mut_slice).enumerate();
        let incoming = incoming.filter(|(peer, _)| *peer != self.rank).collect();
        self.transfer(VALUES, &outgoing, incoming);
        gathered[self.rank] = bytes;
        gathered
    }

    /// Sends and receives, and returns once all messages are through. After a failure it never returns, since MPI may
    /// still read and write the memory.
    fn transfer<T: Equivalence>(
        &mut self,
        tag: Tag,
        outgoing: &[(usize, &[T])],
        incoming: Vec<(usize, &mut [T])>,
    ) {
        scope(|scope| {
            let mut messages = Vec::new();
            for (peer, values) in incoming {
                let process = self.communicator.process_at_rank(peer as i32);
                messages.extend(values.chunks_mut(LARGEST_MESSAGE).map(|values| {
                    let request = process.immediate_receive_into_with_tag(scope, values, tag);
                    Message { peer, is_coming: true, request }
                }));
            }
            for (peer, values) in outgoing {
                let process = self.communicator.process_at_rank(*peer as i32);
                messages.extend(values.chunks(LARGEST_MESSAGE).map(|values| {
                    let request = process.immediate_send_with_tag(scope, values, tag);
                    Message { peer: *peer, is_coming: false, request }
                }));
            }
            let values_move = tag == VALUES;
            let mut backoff = if values_move { Backoff::for_values() } else { Backoff::for_ranks() };
            while !messages.is_empty() {
                let before = messages.len();
                messages = messages.into_iter().filter_map(Message::still_under_way).collect();
                if messages.len() < before {
                    backoff.reset();
                    continue;
                }
                if let Err(error) = self.look_around(&messages, backoff.idle()) {
                    self.fail(error);
                }
                backoff.pause();
            }
        });
    }

    /// Checks for reasons to give up on the pending messages; `idle` is the time without progress.
    fn look_around<T>(&mut self, messages: &[Message<'_, '_, T>], idle: Duration) -> Result<(), GroupError> {
        self.read_commands()?;
        self.read_farewells()?;
        let Collective { operation, number } = self.collective;
        let is_gone = |peer: usize| self.done[peer].is_some_and(|collectives| collectives < number);
        if let Some(gone) = messages.iter().find(|message| message.is_coming && is_gone(message.peer)) {
            return Err(GroupError::Gone { rank: self.hosts.member(gone.peer), operation, number });
        }
        match self.timeout {
            Some(waited) if idle >= waited => {
                // A rank that sends nothing also receives nothing, so incoming messages identify the late ranks best.
                let some_come = messages.iter().any(|message| message.is_coming);
                let late = messages.iter().filter(|message| message.is_coming == some_come);
                let mut late: Vec<_> = late.map(|message| message.peer).collect();
                late.sort_unstable();
                late.dedup();
                let missing = late.into_iter().map(|rank| self.hosts.member(rank)).collect();
                Err(GroupError::Timeout { missing, operation, number, waited })
            }
            _ => Ok(()),
        }
    }

    /// Handles urgent commands and queues the others.
    fn read_commands(&mut self) -> Result<(), GroupError> {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Abort(reason, told) => return Err(self.give_up(reason, told)),
                Command::Terminate(code) => self.communicator.abort(code),
                command => self.backlog.push_back(command),
            }
        }
        Ok(())
    }

    fn read_farewells(&mut self) -> Result<(), GroupError> {
        loop {
            let from = self.communicator.any_process();
            let Some(message) = from.immediate_matched_probe_with_tag(FAREWELLS) else { return Ok(()) };
            let (bytes, status) = message.matched_receive_vec::<u8>();
            let peer = status.source_rank() as usize;
            let farewell = Farewell::decode(&bytes);
            if let Farewell::Done(collectives) = farewell {
                self.done[peer] = Some(collectives);
            }
            if let Some(error) = farewell.error(peer, &self.hosts) {
                return Err(error);
            }
        }
    }

    /// Waits until all ranks have ended, so that finalising MPI does not block.
    fn close(&mut self) {
        self.is_closing = true;
        let done = Farewell::Done(self.collective.number).encode();
        let outgoing: Vec<_> = self.peers().map(|peer| (peer, &done[..])).collect();
        self.transfer(FAREWELLS, &outgoing, Vec::new());
        let (backoff, begin) = (Backoff::for_ranks(), Instant::now());
        loop {
            if let Err(error) = self.read_commands().and_then(|()| self.read_farewells()) {
                self.fail(error);
            }
            let missing: Vec<_> = self.peers().filter(|peer| self.done[*peer].is_none()).collect();
            match self.timeout {
                _ if missing.is_empty() => return,
                Some(waited) if begin.elapsed() >= waited => {
                    let missing = missing.into_iter().map(|rank| self.hosts.member(rank)).collect();
                    let Collective { operation, number } = self.collective;
                    self.fail(GroupError::Timeout { missing, operation, number, waited });
                }
                _ => backoff.pause(),
            }
        }
    }

    /// Sends the error to the other ranks and to every later caller, for as long as the process runs.
    ///
    /// It does not return, since callers hold memory that MPI may still read and write: messages cannot be cancelled.
    fn fail(&mut self, error: GroupError) -> ! {
        let farewell = Farewell::after(&error, self.rank).map(|farewell| farewell.encode());
        scope(|scope| {
            let mut messages: Vec<_> = Vec::new();
            if let Some(bytes) = &farewell {
                messages.extend(self.peers().map(|peer| {
                    let process = self.communicator.process_at_rank(peer as i32);
                    let request = process.immediate_send_with_tag(scope, &bytes[..], FAREWELLS);
                    Message { peer, is_coming: false, request }
                }));
            }
            let begin = Instant::now();
            while !messages.is_empty() && begin.elapsed() < TELL {
                messages = messages.into_iter().filter_map(Message::still_under_way).collect();
                thread::sleep(LOOK);
            }
            let error = self.first_of(error);
            self.answer_all(&error)
        })
    }

    /// After a timeout, the error of the rank that was furthest behind. A rank that waits for a hanging one is itself
    /// missing in a later collective of others, so the earliest timeout names the cause.
    fn first_of(&mut self, mut error: GroupError) -> GroupError {
        let number = |error: &GroupError| match error {
            GroupError::Timeout { number, .. } => Some(*number),
            _ => None,
        };
        let begin = Instant::now();
        while number(&error).is_some() && begin.elapsed() < HEAR {
            match self.read_farewells() {
                Err(told) if number(&told).is_some_and(|told| Some(told) < number(&error)) => error = told,
                _ => thread::sleep(LOOK),
            }
        }
        error
    }

    fn answer_all(&mut self, error: &GroupError) -> ! {
        match self.asking.take() {
            Some(Asking::Sums(answer)) => _ = answer.send(Err(error.clone())),
            Some(Asking::Values(answer)) => _ = answer.send(Err(error.clone())),
            Some(Asking::Bytes(answer)) => _ = answer.send(Err(error.clone())),
            None => {}
        }
        if let Some(told) = self.aborting.take() {
            _ = told.send(());
        }
        if self.is_closing {
            _ = self.closed.send(Err(error.clone()));
        }
        loop {
            match self.backlog.pop_front().map_or_else(|| self.commands.recv(), Ok) {
                Ok(Command::Reduce(_, answer) | Command::ReduceScatter(_, _, answer)) => {
                    _ = answer.send(Err(error.clone()));
                }
                Ok(Command::Gather(_, answer)) => _ = answer.send(Err(error.clone())),
                Ok(Command::Exchange(_, _, answer)) => _ = answer.send(Err(error.clone())),
                Ok(Command::Abort(_, told)) => _ = told.send(()),
                Ok(Command::Terminate(code)) => self.communicator.abort(code),
                // Whoever asked for something since the failure has its error.
                Ok(Command::Close { .. }) => _ = self.closed.send(Ok(())),
                Err(_) => thread::park(),
            }
        }
    }
}

//! The thread that makes all calls of MPI.

use std::{
    collections::VecDeque,
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
    wire::{Farewell, Header, Hosts, header, operation},
};
use crate::group::{
    Exchange, GroupError, Operation,
    pending::{Answer, Summed},
    sum::sum,
};

/// What a rank asks of its thread.
#[derive(Debug)]
pub(super) enum Command {
    Reduce(Vec<f32>, Answer),
    Exchange(Exchange, Vec<u8>, GatheredTo),
    /// Tells the others why this rank gives up, then the sender.
    Abort(String, Sender<()>),
    Terminate(i32),
    Close,
}

pub(super) type GatheredTo = Sender<Result<Vec<Vec<u8>>, GroupError>>;

/// What MPI says of the job.
pub(super) struct Facts {
    pub(super) rank: usize,
    pub(super) local_rank: usize,
    pub(super) local_size: usize,
    pub(super) hosts: Hosts,
}

/// The thread is done, or will do nothing more.
pub(super) struct Closed;

const HEADERS: Tag = 1;
const VALUES: Tag = 2;
const FAREWELLS: Tag = 3;

/// 16 MiB of values are summed at a time: what this thread holds beside the values is at most as much.
const ROUND: usize = 4 << 20;
/// MPI counts what a message has in 32 bits.
const LARGEST_MESSAGE: usize = 1 << 28;
/// How long farewells may take.
const TELL: Duration = Duration::from_millis(500);
/// How long a rank listens to those that missed another at about the same time.
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
    _ = closed.send(Closed);
}

fn initialize() -> Result<Universe, GroupError> {
    // Calls are made by the thread that initialised MPI; other threads only compute.
    let needed = Threading::Funneled;
    let (universe, provided) = initialize_with_threading(needed).ok_or(GroupError::MpiInitialized)?;
    if provided < needed { Err(GroupError::MpiWithoutThreads) } else { Ok(universe) }
}

/// A communicator of our own, so that nobody else's messages meet ours, and what there is to know of the job.
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
    /// Commands that came while another was carried out.
    backlog: VecDeque<Command>,
    /// The ranks that said that they are done, and after how many collectives.
    done: Vec<Option<u64>>,
    collective: Collective,
    /// Who asked for what is being carried out.
    asking: Option<Asking>,
    /// Who waits until the others are told that this rank gives up.
    aborting: Option<Sender<()>>,
    scratch: Vec<f32>,
    /// Whether this rank is done, and waits until all are.
    is_closing: bool,
    closed: Sender<Closed>,
}

/// The collective that is being carried out.
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
    Bytes(GatheredTo),
}

/// A message under way, from or to a peer.
struct Message<'a, 's, T> {
    peer: usize,
    is_coming: bool,
    request: Request<'a, [T], &'s LocalScope<'a>>,
}

impl<T> Message<'_, '_, T> {
    /// Asks MPI; `None` once it has arrived or gone.
    fn still_under_way(self) -> Option<Self> {
        let Self { peer, is_coming, request } = self;
        request.test().err().map(|request| Self { peer, is_coming, request })
    }
}

impl Engine {
    fn serve(&mut self) {
        loop {
            let next = self.backlog.pop_front().map_or_else(|| self.commands.recv(), Ok);
            // An error is that nobody can ask any more. Whoever drops the other end asks to close first.
            match next.unwrap_or(Command::Close) {
                Command::Reduce(values, answer) => {
                    self.asking = Some(Asking::Sums(answer));
                    let summed = self.all_reduce(values);
                    if let Some(Asking::Sums(answer)) = self.asking.take() {
                        _ = answer.send(Ok(summed));
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
                Command::Close => return self.close(),
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

    /// Waits until every rank came, and gives what they said.
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

    /// Each rank sums its share of the values, from what all ranks send it, and sends the sums to all.
    fn all_reduce(&mut self, mut values: Vec<f32>) -> Summed {
        self.meet(Operation::AllReduce { length: values.len() }, 0);
        let met = Instant::now();
        for round in values.chunks_mut(ROUND) {
            self.reduce_round(round);
        }
        Summed { values, met, finished: Instant::now() }
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

    /// Sends and receives, and comes back once all of it has gone and come. Where it fails it does not come back, since
    /// MPI may still read and write the memory.
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

    /// Whether there is still hope for the messages under way, of which none moved for the time `idle`.
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
                // Who sends nothing takes nothing either, so those who only take nothing are few.
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

    /// Carries out what cannot wait for its turn.
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

    /// Waits for all ranks to be done, so that MPI does not wait for any when it is finalised.
    fn close(&mut self) {
        // A rank may be busy for long after its last collective, with saving for one.
        self.timeout = None;
        self.is_closing = true;
        let done = Farewell::Done(self.collective.number).encode();
        let outgoing: Vec<_> = self.peers().map(|peer| (peer, &done[..])).collect();
        self.transfer(FAREWELLS, &outgoing, Vec::new());
        let backoff = Backoff::for_ranks();
        while self.peers().any(|peer| self.done[peer].is_none()) {
            if let Err(error) = self.read_commands().and_then(|()| self.read_farewells()) {
                self.fail(error);
            }
            backoff.pause();
        }
    }

    /// Tells the others and whoever asks, for as long as the process runs.
    ///
    /// It does not return, since callers hold memory that MPI may still read and write: there is no way to take a
    /// message back.
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

    /// Of a collective that timed out the error of the rank that was furthest behind. A rank that waits there for one that
    /// hangs is missed itself, further on, by those for whom the hanging one was still in time.
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
            Some(Asking::Bytes(answer)) => _ = answer.send(Err(error.clone())),
            None => {}
        }
        if let Some(told) = self.aborting.take() {
            _ = told.send(());
        }
        if self.is_closing {
            _ = self.closed.send(Closed);
        }
        loop {
            match self.backlog.pop_front().map_or_else(|| self.commands.recv(), Ok) {
                Ok(Command::Reduce(_, answer)) => _ = answer.send(Err(error.clone())),
                Ok(Command::Exchange(_, _, answer)) => _ = answer.send(Err(error.clone())),
                Ok(Command::Abort(_, told)) => _ = told.send(()),
                Ok(Command::Terminate(code)) => self.communicator.abort(code),
                Ok(Command::Close) => _ = self.closed.send(Closed),
                Err(_) => thread::park(),
            }
        }
    }
}

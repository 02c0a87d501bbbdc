use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc::channel},
    thread,
    time::{Duration, Instant},
};

use super::{
    Exchange, Gathered, Group, GroupError, Member, Operation, Pending,
    collectives::check_ends,
    given::{Given, Payload},
};

/// A rank that is a thread of this process. Made by [`threads`].
#[derive(Debug)]
pub struct ThreadGroup {
    rank: usize,
    shared: Arc<SharedGroup>,
}

/// Makes a group of `world_size` ranks in this process, one end for each, in the order of ranks.
///
/// The group's own thread moves and sums values while the ranks compute. Large sums use one thread per rank, up to one
/// per core. Sums overwrite the values in each rank's memory; no other memory is held.
///
/// A collective fails, and the group with it, if not all ranks join within `timeout` of the first.
///
/// # Errors
/// The system starts no more threads.
pub fn threads(world_size: usize, timeout: Option<Duration>) -> Result<Vec<ThreadGroup>, GroupError> {
    let state =
        GroupState { counts: vec![0; world_size], left: vec![false; world_size], ..GroupState::default() };
    let shared = Arc::new(SharedGroup { state: Mutex::new(state), changed: Condvar::new(), timeout });
    let moving = Arc::clone(&shared);
    thread::Builder::new()
        .name("oomph-group".into())
        .spawn(move || {
            let _mover = Mover(&moving);
            while let Some((round, number)) = moving.next() {
                moving.finish(round, number);
            }
        })
        .map_err(|source| GroupError::NoThread { source: Arc::new(source) })?;
    Ok((0..world_size).map(|rank| ThreadGroup { rank, shared: Arc::clone(&shared) }).collect())
}

#[derive(Debug)]
struct SharedGroup {
    state: Mutex<GroupState>,
    /// Wakes the group's thread.
    changed: Condvar,
    timeout: Option<Duration>,
}

#[derive(Debug, Default)]
struct GroupState {
    /// The number of collectives that each rank started.
    counts: Vec<u64>,
    /// Whether each rank dropped its end.
    left: Vec<bool>,
    /// The number of collectives taken from `rounds`.
    done: u64,
    /// The collectives that some ranks began, in order. They complete in order.
    rounds: VecDeque<OpenCollective>,
    broken: Option<GroupError>,
}

/// A collective that ranks are joining.
#[derive(Debug)]
struct OpenCollective {
    since: Instant,
    given: Vec<Option<Contribution>>,
}

/// The request of one rank.
#[derive(Debug)]
struct Contribution {
    operation: Operation,
    payload: Payload,
}

impl Contribution {
    /// The rank may have stopped waiting; then the error is dropped.
    fn fail(self, error: GroupError) {
        match self.payload {
            Payload::Values(_, answer) | Payload::Scattered(_, _, answer) => _ = answer.send(Err(error)),
            Payload::Gathered(_, answer) => _ = answer.send(Err(error)),
            Payload::Bytes(_, answer) => _ = answer.send(Err(error)),
        }
    }
}

impl OpenCollective {
    /// The request of the lowest rank that joined. Every open collective has one.
    fn operation(&self) -> Operation {
        let first = self.given.iter().flatten().next();
        first.map_or(Operation::Exchange(Exchange::Barrier), |given| given.operation)
    }
}

fn member(rank: usize) -> Member {
    Member { rank, host: None }
}

impl GroupState {
    fn fail(&mut self, error: GroupError) {
        for given in self.rounds.drain(..).flat_map(|round| round.given).flatten() {
            given.fail(error.clone());
        }
        self.broken.get_or_insert(error);
    }

    /// Fails if a rank left that an open collective still needs.
    fn fail_if_one_left(&mut self) {
        let rounds = self.rounds.iter().zip(self.done..);
        let gone = rounds.into_iter().find_map(|(round, index)| {
            let is_gone = |rank: &usize| self.left[*rank] && self.counts[*rank] <= index;
            let rank = (0..self.left.len()).find(is_gone)?;
            Some((rank, round.operation(), index + 1))
        });
        if let Some((rank, operation, number)) = gone {
            self.fail(GroupError::Gone { rank: member(rank), operation, number });
        }
    }

    fn start(&mut self, rank: usize, given: Contribution) {
        if let Some(error) = &self.broken {
            return given.fail(error.clone());
        }
        let index = (self.counts[rank] - self.done) as usize;
        if index == self.rounds.len() {
            let given = self.counts.iter().map(|_| None).collect();
            self.rounds.push_back(OpenCollective { since: Instant::now(), given });
        }
        self.rounds[index].given[rank] = Some(given);
        self.counts[rank] += 1;
        self.fail_if_one_left();
    }

    fn time_out(&mut self, waited: Duration) {
        let Some(round) = self.rounds.front() else { return };
        let missing = round.given.iter().zip(0..).filter(|(given, _)| given.is_none());
        let missing = missing.map(|(_, rank)| member(rank)).collect();
        let (operation, number) = (round.operation(), self.done + 1);
        self.fail(GroupError::Timeout { missing, operation, number, waited });
    }
}

impl SharedGroup {
    /// No holder of the lock panics, and the state is consistent between any two statements.
    fn lock(&self) -> MutexGuard<'_, GroupState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next complete collective and its number; `None` once all ranks left.
    fn next(&self) -> Option<(OpenCollective, u64)> {
        let mut state = self.lock();
        loop {
            if state.rounds.front().is_some_and(|round| round.given.iter().all(Option::is_some)) {
                state.done += 1;
                let number = state.done;
                return state.rounds.pop_front().map(|round| (round, number));
            }
            if state.left.iter().all(|left| *left) {
                return None;
            }
            let deadline =
                state.rounds.front().zip(self.timeout).map(|(round, timeout)| (round.since, timeout));
            state = match deadline {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some((since, timeout)) => {
                    let Some(rest) = timeout.checked_sub(since.elapsed()).filter(|rest| !rest.is_zero())
                    else {
                        state.time_out(timeout);
                        continue;
                    };
                    self.changed.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn finish(&self, round: OpenCollective, number: u64) {
        let asked: Vec<_> = round.given.iter().flatten().map(|given| given.operation).collect();
        if asked.windows(2).any(|pair| pair[0] != pair[1]) {
            let error = GroupError::Mismatch { number, asked };
            let mut state = self.lock();
            round.given.into_iter().flatten().for_each(|given| given.fail(error.clone()));
            return state.fail(error);
        }
        let mut given = Given::default();
        round.given.into_iter().flatten().for_each(|rank| given.take(rank.payload));
        given.answer(Instant::now());
    }
}

/// Held by the group's own thread.
struct Mover<'a>(&'a SharedGroup);

/// Nobody waits for a thread that ended by a panic.
impl Drop for Mover<'_> {
    fn drop(&mut self) {
        self.0.lock().fail(GroupError::ThreadDied);
    }
}

impl ThreadGroup {
    fn give(&self, operation: Operation, payload: Payload) {
        self.shared.lock().start(self.rank, Contribution { operation, payload });
        self.shared.changed.notify_one();
    }
}

impl Group for ThreadGroup {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world_size(&self) -> usize {
        self.shared.lock().left.len()
    }

    fn start_all_reduce(&self, values: Vec<f32>) -> Pending {
        let (answer, pending) = Pending::new();
        self.give(Operation::AllReduce { length: values.len() }, Payload::Values(values, answer));
        pending
    }

    fn start_reduce_scatter(&self, values: Vec<f32>, ends: &[usize]) -> Pending {
        check_ends(ends, self.world_size(), values.len());
        let (answer, pending) = Pending::new();
        let operation = Operation::ReduceScatter { length: values.len() };
        self.give(operation, Payload::Scattered(values, ends.into(), answer));
        pending
    }

    fn start_all_gather(&self, values: Vec<f32>) -> Pending<Gathered> {
        let (answer, pending) = Pending::new();
        self.give(Operation::GatherValues, Payload::Gathered(values, answer));
        pending
    }

    fn exchange(&self, what: Exchange, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>, GroupError> {
        let (answer, coming) = channel();
        self.give(Operation::Exchange(what), Payload::Bytes(bytes, answer));
        coming.recv().unwrap_or(Err(GroupError::ThreadDied))
    }

    fn abort(&self, reason: &str) {
        let error = GroupError::Aborted { rank: member(self.rank), reason: reason.to_owned() };
        self.shared.lock().fail(error);
    }
}

impl Drop for ThreadGroup {
    fn drop(&mut self) {
        if thread::panicking() {
            self.abort("it panicked");
        }
        let mut state = self.shared.lock();
        state.left[self.rank] = true;
        state.fail_if_one_left();
        mem::drop(state);
        self.shared.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use proptest::prelude::*;

    use super::*;

    /// Runs `program` as every rank of a group and returns all results.
    fn run<R: Send>(
        world_size: usize,
        timeout: Option<Duration>,
        program: impl Fn(ThreadGroup) -> R + Sync,
    ) -> Vec<thread::Result<R>> {
        let groups = threads(world_size, timeout).unwrap();
        let program = &program;
        thread::scope(|scope| {
            let ranks: Vec<_> = groups.into_iter().map(|group| scope.spawn(move || program(group))).collect();
            ranks.into_iter().map(thread::ScopedJoinHandle::join).collect()
        })
    }

    fn results<R: Send>(world_size: usize, program: impl Fn(ThreadGroup) -> R + Sync) -> Vec<R> {
        run(world_size, None, program).into_iter().map(Result::unwrap).collect()
    }

    /// Values whose sum depends on the order.
    fn values(rank: usize, length: usize) -> Vec<f32> {
        (0..length).map(|place| ((place * 7919 + rank * 104_729) as f32).sin() * 1e3).collect()
    }

    fn sums(world_size: usize, length: usize) -> Vec<u32> {
        let add = |sums: Vec<f32>, rank| sums.iter().zip(values(rank, length)).map(|(a, b)| a + b).collect();
        (1..world_size).fold(values(0, length), add).into_iter().map(f32::to_bits).collect()
    }

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn every_rank_gets_the_bits_of_the_sum_in_the_order_of_ranks(
            world_size in 1_usize..6,
            lengths in prop::collection::vec(prop_oneof![0_usize..8, 0_usize..5_000], 1..4),
        ) {
            let reduced = results(world_size, |group| -> Result<Vec<_>, _> {
                let give = |length: &usize| group.all_reduce(values(group.rank(), *length));
                lengths.iter().map(give).collect()
            });
            let expected: Vec<_> = lengths.iter().map(|length| sums(world_size, *length)).collect();
            for rank in reduced {
                let of_rank: Vec<_> = rank.unwrap().iter().map(|values| bits(values)).collect();
                prop_assert_eq!(&of_rank, &expected);
            }
        }
    }

    #[test]
    fn a_reduce_scatter_gives_each_rank_its_share_of_the_sums() {
        let shares = results(3, |group| {
            let given = values(group.rank(), 5000);
            group.start_reduce_scatter(given, &[2000, 2001, 5000]).wait().unwrap().values
        });
        let expected = sums(3, 5000);
        for (share, range) in shares.iter().zip([0..2000, 2000..2001, 2001..5000]) {
            assert_eq!(bits(share), expected[range]);
        }
    }

    #[test]
    fn an_all_gather_gives_the_values_of_all_once() {
        let gathered = results(3, |group| {
            let given = values(group.rank(), 10 * group.rank());
            group.start_all_gather(given).wait().unwrap().values
        });
        let expected: Vec<_> = (0..3).map(|rank| values(rank, 10 * rank)).collect();
        for of_rank in &gathered {
            assert_eq!(**of_rank, expected);
            assert!(std::sync::Arc::ptr_eq(of_rank, &gathered[0]), "ranks share the values");
        }
    }

    #[test]
    #[should_panic(expected = "the shares of 1 ranks end at [1] of 2 values")]
    fn shares_must_cover_the_values() {
        let groups = threads(1, None).unwrap();
        drop(groups[0].start_reduce_scatter(vec![1.0; 2], &[1]));
    }

    #[test]
    fn large_sums_have_the_same_bits() {
        let length = 2_400_001;
        for rank in results(3, |group| group.all_reduce(values(group.rank(), length)).unwrap()) {
            assert_eq!(bits(&rank), sums(3, length));
        }
    }

    #[test]
    fn sums_come_in_the_memory_of_the_values() {
        for (before, after) in results(2, |group| {
            let values = vec![1.0; 5000];
            let before = values.as_ptr().addr();
            let sums = group.all_reduce(values).unwrap();
            (before, sums.as_ptr().addr())
        }) {
            assert_eq!(before, after);
        }
    }

    #[test]
    fn what_is_under_way_is_matched_by_the_order_of_starting_and_waited_for_in_any() {
        let reduced = results(3, |group| {
            let mut pending: Vec<_> =
                (1..6).map(|n| group.start_all_reduce(values(group.rank(), n * 100))).collect();
            let barrier = group.barrier();
            pending.reverse();
            barrier.and_then(|()| {
                pending
                    .into_iter()
                    .map(|one| one.wait().map(|it| bits(&it.values)))
                    .collect::<Result<Vec<_>, _>>()
            })
        });
        for rank in reduced {
            let expected: Vec<_> = (1..6).rev().map(|n| sums(3, n * 100)).collect();
            assert_eq!(rank.unwrap(), expected);
        }
    }

    #[test]
    fn a_sum_is_made_while_the_rank_does_something_else() {
        for reduced in results(2, |group| {
            let pending = group.start_all_reduce(vec![1.0; 1000]);
            thread::sleep(Duration::from_millis(200));
            pending.wait().unwrap()
        }) {
            assert!(reduced.took < Duration::from_millis(150), "{:?}", reduced.took);
            assert!(reduced.moving <= reduced.took);
            assert!(reduced.blocked < Duration::from_millis(100), "{:?}", reduced.blocked);
        }
    }

    #[test]
    fn bytes_of_any_length_reach_every_rank() {
        for (gathered, sent, sums) in results(4, |group| {
            let bytes = vec![group.rank() as u8; group.rank()];
            let gathered = group.all_gather(bytes.clone()).unwrap();
            let sent = group.broadcast(2, bytes).unwrap();
            (gathered, sent, group.all_reduce_f64(&[group.rank() as f64, 0.1]).unwrap())
        }) {
            assert_eq!(gathered, [vec![], vec![1], vec![2, 2], vec![3, 3, 3]]);
            assert_eq!(sent, [2, 2]);
            assert_eq!(sums, [6.0, 0.1 + 0.1 + 0.1 + 0.1]);
        }
    }

    #[test]
    fn nobody_broadcasts_from_a_rank_that_there_is_not() {
        let errors = results(2, |group| group.broadcast(2, vec![]).unwrap_err().to_string());
        assert_eq!(errors, ["there is no rank 2 to broadcast from: the world size is 2"; 2]);
    }

    #[test]
    fn who_aborts_is_named_with_its_reason_now_and_later() {
        let errors = results(3, |group| {
            if group.rank() == 1 {
                group.abort("out of memory");
            }
            let first = group.all_reduce(vec![1.0]).unwrap_err().to_string();
            (first, group.barrier().unwrap_err().to_string())
        });
        for (now, later) in errors {
            assert_eq!(now, "rank 1 aborted: out of memory");
            assert_eq!(later, now);
        }
    }

    #[test]
    fn a_panic_takes_the_others_with_it() {
        let results = run(3, None, |group| {
            assert_ne!(group.rank(), 2, "for the test");
            group.all_reduce(vec![1.0]).unwrap_err().to_string()
        });
        for result in &results[..2] {
            assert_eq!(result.as_ref().unwrap(), "rank 2 aborted: it panicked");
        }
        assert!(results[2].is_err());
    }

    #[test]
    fn who_leaves_is_missed_by_what_it_did_not_begin() {
        let errors = results(2, |group| {
            let first = group.start_all_reduce(vec![1.0]);
            if group.rank() == 0 {
                drop(group);
                return (first.wait().unwrap().values, String::new());
            }
            let values = first.wait().unwrap().values;
            (values, group.all_reduce(vec![1.0; 4]).unwrap_err().to_string())
        });
        let error = "rank 0 left before an all-reduce of 4 values, collective 2 of the others";
        assert_eq!(errors[0].0, [2.0]);
        assert_eq!(errors[1], (vec![2.0], error.to_owned()));
    }

    #[test]
    fn leaving_wakes_those_who_wait_already() {
        let (waits, waiting) = sync_channel(1);
        let waiting = Mutex::new(waiting);
        let errors = results(2, |group| {
            if group.rank() == 0 {
                waiting.lock().unwrap().recv().unwrap();
                return None;
            }
            let pending = group.start_all_reduce(vec![1.0]);
            waits.send(()).unwrap();
            pending.wait().err()
        });
        assert!(matches!(&errors[1], Some(GroupError::Gone { rank, .. }) if rank.rank == 0));
    }

    #[test]
    fn a_timeout_names_who_did_not_come_and_breaks_the_group() {
        let timeout = Duration::from_millis(100);
        let results = run(4, Some(timeout), |group| {
            group.barrier().unwrap();
            if group.rank() % 2 == 1 {
                thread::sleep(4 * timeout);
            }
            let pending = group.start_all_reduce(vec![1.0; 8]);
            (pending.wait().unwrap_err().to_string(), group.barrier().is_err())
        });
        for result in results {
            let error = "rank 1, rank 3 did not join an all-reduce of 8 values, collective 2, within 100ms";
            assert_eq!(result.unwrap(), (error.to_owned(), true));
        }
    }

    #[test]
    fn time_between_collectives_is_not_limited() {
        let timeout = Duration::from_millis(200);
        for result in run(2, Some(timeout), |group| {
            group.barrier().unwrap();
            thread::sleep(2 * timeout);
            group.barrier()
        }) {
            result.unwrap().unwrap();
        }
    }

    #[test]
    fn different_requests_are_told_apart() {
        let of_two = |program: fn(&ThreadGroup) -> Result<(), GroupError>| {
            results(2, |group| program(&group).unwrap_err().to_string())
        };
        let says = "the ranks request different operations as collective 1: rank 0: ";
        assert_eq!(
            of_two(|group| group.all_reduce(vec![1.0; group.rank() + 1]).map(drop)),
            [(); 2].map(|()| format!("{says}an all-reduce of 1 values; rank 1: an all-reduce of 2 values"))
        );
        assert_eq!(
            of_two(|group| match group.rank() {
                0 => group.barrier(),
                _ => group.all_reduce_f64(&[1.0]).map(drop),
            }),
            [(); 2].map(|()| format!("{says}a barrier; rank 1: an all-reduce of 1 f64 values"))
        );
    }
}

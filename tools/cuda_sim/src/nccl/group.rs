//! Ranks that work together.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    Failure,
    element::{Element, reduce},
};

/// A rank that waits longer for the others fails: one of them has ended.
const LONGEST: Duration = Duration::from_secs(60);

/// What a rank brings to an all-reduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rank {
    pub(super) source: usize,
    pub(super) target: usize,
    pub(super) count: usize,
    pub(super) element: Element,
}

/// The ranks of a unique identifier.
#[derive(Debug)]
pub(super) struct Group {
    ranks: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Collectives that are complete.
    rounds: u64,
    /// What the ranks of the next one brought.
    brought: BTreeMap<usize, Rank>,
    /// How the last one ended.
    outcome: Option<Failure>,
    /// Messages from a rank to another.
    messages: HashMap<(usize, usize), VecDeque<Vec<u8>>>,
}

impl Group {
    /// The group of that identifier.
    pub(super) fn of(id: [u8; 128], ranks: usize) -> Arc<Self> {
        static GROUPS: Mutex<BTreeMap<[u8; 128], Arc<Group>>> = Mutex::new(BTreeMap::new());
        let new = || Arc::new(Self { ranks, state: Mutex::default(), changed: Condvar::new() });
        GROUPS.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_insert_with(new).clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `is_done`.
    fn wait<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        is_done: impl Fn(&State) -> bool,
    ) -> Result<MutexGuard<'a, State>, Failure> {
        let waited = self.changed.wait_timeout_while(state, LONGEST, |state| !is_done(state));
        let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() { Err(Failure::System) } else { Ok(state) }
    }

    /// Brings a rank's part. The last rank computes for all.
    pub(super) fn all_reduce(&self, rank: usize, part: Rank, is_mean: bool) -> Result<(), Failure> {
        let mut state = self.state();
        let round = state.rounds;
        state.brought.insert(rank, part);
        if state.brought.len() == self.ranks {
            let brought = std::mem::take(&mut state.brought);
            state.outcome = all(&brought, is_mean).err();
            state.rounds += 1;
            self.changed.notify_all();
        }
        let state = self.wait(state, |state| state.rounds > round)?;
        state.outcome.map_or(Ok(()), Err)
    }

    pub(super) fn send(&self, from: usize, to: usize, message: Vec<u8>) -> Result<(), Failure> {
        if to >= self.ranks {
            return Err(Failure::InvalidArgument);
        }
        self.state().messages.entry((from, to)).or_default().push_back(message);
        self.changed.notify_all();
        Ok(())
    }

    pub(super) fn receive(&self, from: usize, to: usize) -> Result<Vec<u8>, Failure> {
        if from >= self.ranks {
            return Err(Failure::InvalidArgument);
        }
        let is_here = |state: &State| state.messages.get(&(from, to)).is_some_and(|queue| !queue.is_empty());
        let mut state = self.wait(self.state(), is_here)?;
        state.messages.get_mut(&(from, to)).and_then(VecDeque::pop_front).ok_or(Failure::System)
    }
}

fn all(brought: &BTreeMap<usize, Rank>, is_mean: bool) -> Result<(), Failure> {
    let ranks: Vec<Rank> = brought.values().copied().collect();
    let Some(Rank { count, element, .. }) = ranks.first().copied() else { return Ok(()) };
    if ranks.iter().any(|rank| (rank.count, rank.element) != (count, element)) {
        return Err(Failure::InvalidArgument);
    }
    let sources: Vec<usize> = ranks.iter().map(|rank| rank.source).collect();
    let targets: Vec<usize> = ranks.iter().map(|rank| rank.target).collect();
    // SAFETY: every rank vouches for its buffers, and waits until this is done.
    unsafe { reduce(&sources, &targets, count, element, is_mean) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn ranks_sum_again_and_again() {
        let group = Group::of([9; 128], 3);
        let work = |rank: usize| {
            let group = group.clone();
            thread::spawn(move || {
                let mut value = [rank as f32 + 1.0];
                for _ in 0..50 {
                    let place = value.as_mut_ptr() as usize;
                    let part = Rank { source: place, target: place, count: 1, element: Element::F32 };
                    group.all_reduce(rank, part, true).unwrap();
                }
                value[0]
            })
        };
        let threads: Vec<_> = (0..3).map(work).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), 2.0);
        }
    }

    #[test]
    fn a_message_reaches_its_rank() {
        let group = Group::of([8; 128], 2);
        group.send(0, 1, vec![1, 2]).unwrap();
        group.send(0, 1, vec![3]).unwrap();
        assert_eq!(group.receive(0, 1), Ok(vec![1, 2]));
        assert_eq!(group.receive(0, 1), Ok(vec![3]));
        assert_eq!(group.send(0, 2, Vec::new()), Err(Failure::InvalidArgument));
        assert_eq!(group.receive(2, 0), Err(Failure::InvalidArgument));
    }

    #[test]
    fn ranks_that_disagree_fail() {
        let group = Group::of([7; 128], 2);
        let other = group.clone();
        let part = |count| Rank { source: 0, target: 0, count, element: Element::F32 };
        let thread = thread::spawn(move || other.all_reduce(1, part(2), false));
        assert_eq!(group.all_reduce(0, part(1), false), Err(Failure::InvalidArgument));
        assert_eq!(thread.join().unwrap(), Err(Failure::InvalidArgument));
    }
}

//! Memory and places of trials that train at the same time.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use oomph_core::Bytes;

use crate::bench::TrialPlace;

/// A trial gets this much more than its plan, since plans are wrong by less than that: see docs/reference/planning-accuracy.md.
const MARGIN: f64 = 0.02;

/// And this much more, for small trainings.
const LEAST_MARGIN: u64 = 1 << 20;

/// How often a slot that waits for room looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Packs trials into the memory of places: the grants of a place never exceed its limit.
#[derive(Debug)]
pub(crate) struct Rooms {
    state: Mutex<RoomsState>,
    changed: Condvar,
}

#[derive(Debug)]
struct RoomsState {
    rooms: Vec<Room>,
    /// Who waits, in the order of coming: a large trial is not passed by small ones for ever.
    waiting: VecDeque<u64>,
    next_ticket: u64,
}

#[derive(Debug)]
struct Room {
    place: TrialPlace,
    granted: u64,
    trials: usize,
}

/// The right to train at a place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Grant<'a> {
    rooms: &'a Rooms,
    index: usize,
    /// The place.
    pub(crate) place: TrialPlace,
    /// The bytes that the trial may use; `None` where the place's memory is not known.
    pub(crate) bytes: Option<Bytes>,
}

impl Rooms {
    pub(crate) fn new(places: &[TrialPlace]) -> Self {
        let room = |place: &TrialPlace| Room { place: place.clone(), granted: 0, trials: 0 };
        let state =
            RoomsState { rooms: places.iter().map(room).collect(), waiting: VecDeque::new(), next_ticket: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// How many trials may train at the same time, memory apart.
    pub(crate) fn most(&self) -> usize {
        self.lock().rooms.iter().map(|room| room.place.most).sum()
    }

    /// The place with the most memory: what does not fit there fits nowhere.
    pub(crate) fn largest(&self) -> Option<TrialPlace> {
        let limit = |place: &TrialPlace| place.limit_bytes.map_or(u64::MAX, Bytes::get);
        self.lock().rooms.iter().map(|room| room.place.clone()).max_by_key(limit)
    }

    /// Waits for a place with room for a planned peak. `None` once `is_stopped`.
    pub(crate) fn wait_for(&self, peak_bytes: Bytes, is_stopped: impl Fn() -> bool) -> Option<Grant<'_>> {
        let mut state = self.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push_back(ticket);
        let found = loop {
            if is_stopped() {
                break None;
            }
            if state.waiting.front() == Some(&ticket)
                && let Some(found) = state.enter(peak_bytes)
            {
                break Some(found);
            }
            let waited = self.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        state.waiting.retain(|waiting| *waiting != ticket);
        drop(state);
        self.changed.notify_all();
        let Entered { index, place, bytes } = found?;
        Some(Grant { rooms: self, index, place, bytes })
    }

    /// Ignores poisoning: no change of the state can panic in the middle.
    fn lock(&self) -> MutexGuard<'_, RoomsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Entered {
    index: usize,
    place: TrialPlace,
    bytes: Option<Bytes>,
}

impl RoomsState {
    /// The emptiest place with enough room.
    fn enter(&mut self, peak_bytes: Bytes) -> Option<Entered> {
        let wanted = with_margin(peak_bytes);
        let has_room = |(_, room): &(usize, &Room)| {
            let fits = room.place.limit_bytes.is_none_or(|limit| {
                // A trial that is alone may have the whole place, as a training without a study.
                room.granted + wanted <= limit.get() || room.trials == 0 && peak_bytes <= limit
            });
            fits && room.trials < room.place.most
        };
        let rooms = self.rooms.iter().enumerate().filter(has_room);
        let (index, _) = rooms.min_by_key(|(_, room)| (room.trials, room.granted))?;
        let room = self.rooms.get_mut(index)?;
        let bytes = room.place.limit_bytes.map(|limit| Bytes::new(wanted.min(limit.get())));
        room.granted += bytes.map_or(0, Bytes::get);
        room.trials += 1;
        Some(Entered { index, place: room.place.clone(), bytes })
    }
}

/// What a trial with a planned peak is granted.
fn with_margin(peak_bytes: Bytes) -> u64 {
    let margin = (peak_bytes.get() as f64 * MARGIN).ceil() as u64;
    peak_bytes.get().saturating_add(margin.max(LEAST_MARGIN))
}

impl Drop for Grant<'_> {
    fn drop(&mut self) {
        let mut state = self.rooms.lock();
        if let Some(room) = state.rooms.get_mut(self.index) {
            room.granted -= self.bytes.map_or(0, Bytes::get);
            room.trials -= 1;
        }
        drop(state);
        self.rooms.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU64, Ordering},
        thread,
    };

    use oomph_config::DeviceName;

    use super::*;

    fn place(limit: Option<Bytes>, most: usize) -> TrialPlace {
        TrialPlace { devices: vec![DeviceName::Cpu], limit_bytes: limit, most, threads: None }
    }

    #[test]
    fn grants_never_exceed_the_limit() {
        let rooms = Rooms::new(&[place(Some(Bytes::mib(100)), 8)]);
        let granted = AtomicU64::new(0);
        thread::scope(|scope| {
            for slot in 0..8u64 {
                let (rooms, granted) = (&rooms, &granted);
                scope.spawn(move || {
                    for round in 0..50 {
                        let grant =
                            rooms.wait_for(Bytes::mib(5 + (slot * 7 + round * 13) % 90), || false).unwrap();
                        let bytes = grant.bytes.unwrap().get();
                        let now = granted.fetch_add(bytes, Ordering::SeqCst) + bytes;
                        assert!(now <= Bytes::mib(100).get(), "{now}");
                        granted.fetch_sub(bytes, Ordering::SeqCst);
                    }
                });
            }
        });
    }

    #[test]
    fn a_trial_that_needs_all_of_a_place_is_alone_there() {
        let rooms = Rooms::new(&[place(Some(Bytes::mib(100)), 2)]);
        let whole = rooms.wait_for(Bytes::mib(100), || false).unwrap();
        assert_eq!(whole.bytes, Some(Bytes::mib(100)));
        assert!(rooms.wait_for(Bytes::mib(1), || true).is_none());
        drop(whole);
        assert!(rooms.wait_for(Bytes::mib(1), || false).is_some());
    }

    #[test]
    fn trials_spread_over_places() {
        let rooms = Rooms::new(&[place(None, 2), place(None, 2)]);
        assert_eq!(rooms.most(), 4);
        let grants: Vec<_> = (0..4).map(|_| rooms.wait_for(Bytes::mib(1), || false).unwrap()).collect();
        let indices: Vec<_> = grants.iter().map(|grant| grant.index).collect();
        assert_eq!(indices, [0, 1, 0, 1]);
    }
}

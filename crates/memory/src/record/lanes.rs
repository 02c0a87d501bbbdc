//! What each device does when, noted by those who have it do that.

use std::{
    cell::Cell,
    collections::VecDeque,
    marker::PhantomData,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use oomph_core::current_device;

use super::{is_on, nanoseconds};
use crate::{
    account::{Account, charge},
    timeline::{Lane, LaneKind, LaneSpan},
};

/// The spans that are kept of each device, the newest ones: a step of eight micro-batches in a pipeline has about 60.
const MOST: usize = 20_000;

/// Of each device, on the process's clock.
static LANES: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

#[derive(Default)]
struct Kept {
    spans: VecDeque<LaneSpan>,
    transfers: VecDeque<LaneSpan>,
}

thread_local! {
    /// What this thread has its device do.
    static DOING: Cell<Option<Doing>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct Doing {
    device: usize,
    /// Its end is not known yet.
    span: LaneSpan,
}

impl Doing {
    /// Up to now.
    fn note(self, now: u64) {
        note(self.device, LaneSpan { end: now, ..self.span }, |kept| &mut kept.spans);
    }
}

/// Ends what [`lane`] began.
#[derive(Debug)]
#[must_use = "what the device does lasts as long as this"]
pub struct LaneGuard {
    begun: bool,
    /// What goes on when it is dropped, which has to be in this thread.
    before: PhantomData<*const ()>,
    outer: OuterSpan,
}

/// What was going on before.
#[derive(Clone, Copy)]
struct OuterSpan(Option<Doing>);

impl std::fmt::Debug for OuterSpan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OuterSpan").field(&self.0.map(|doing| doing.span)).finish()
    }
}

/// Says that this thread's device does something from now on, as long as the guard lives, while allocations are
/// recorded; else it costs one load. What it did before is interrupted, so that it never does two things at once.
pub fn lane(kind: LaneKind, name: &'static str, number: Option<usize>) -> LaneGuard {
    let mut guard = LaneGuard { begun: is_on(), before: PhantomData, outer: OuterSpan(None) };
    if guard.begun {
        let now = nanoseconds();
        let span = LaneSpan { kind, name, number, start: now, end: now };
        let outer = DOING.replace(Some(Doing { device: current_device(), span }));
        if let Some(outer) = outer {
            outer.note(now);
        }
        guard.outer = OuterSpan(outer);
    }
    guard
}

impl Drop for LaneGuard {
    fn drop(&mut self) {
        if !self.begun {
            return;
        }
        let now = nanoseconds();
        let outer = self.outer.0.map(|outer| Doing { span: LaneSpan { start: now, ..outer.span }, ..outer });
        if let Some(done) = DOING.replace(outer) {
            done.note(now);
        }
    }
}

/// Says that what this thread's device did from one moment to another, both just past, was something else than what goes
/// on: of what is known only when it is over, as waiting for others before sums are made.
pub fn lane_was(kind: LaneKind, name: &'static str, number: Option<usize>, [start, end]: [Instant; 2]) {
    if !is_on() {
        return;
    }
    let [mut start, end] = [start, end].map(moment);
    if let Some(doing) = DOING.get() {
        // Not before what goes on began: a clock that is read twice may say so.
        start = start.max(doing.span.start);
        doing.note(start);
        DOING.set(Some(Doing { span: LaneSpan { start: end.max(start), ..doing.span }, ..doing }));
    }
    note(current_device(), LaneSpan { kind, name, number, start, end }, |kept| &mut kept.spans);
}

/// Says that something travelled from or to this thread's device, whatever that did meanwhile.
pub fn transfer(name: &'static str, number: Option<usize>, started: Instant, took: Duration) {
    if is_on() {
        let [start, end] = [started, started + took].map(moment);
        let span = LaneSpan { kind: LaneKind::Communication, name, number, start, end };
        note(current_device(), span, |kept| &mut kept.transfers);
    }
}

/// A moment on the clock of the recording.
fn moment(instant: Instant) -> u64 {
    nanoseconds().saturating_sub(instant.elapsed().as_nanos() as u64)
}

fn note(device: usize, span: LaneSpan, of: impl FnOnce(&mut Kept) -> &mut VecDeque<LaneSpan>) {
    if span.start >= span.end {
        return;
    }
    charge(Account::Host, || {
        let mut lanes = kept();
        if lanes.len() <= device {
            lanes.resize_with(device + 1, Kept::default);
        }
        let spans = of(&mut lanes[device]);
        if spans.len() == MOST {
            spans.pop_front();
        }
        spans.push_back(span);
    });
}

fn kept() -> MutexGuard<'static, Vec<Kept>> {
    // A panic leaves whole spans.
    LANES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets what was noted.
pub(super) fn forget() {
    *kept() = Vec::new();
}

/// What was noted of a device since `moment`, on the clock of the recording that began at `started`.
pub(super) fn of_device(device: usize, moment: u64, started: u64) -> Lane {
    let lanes = kept();
    let Some(kept) = lanes.get(device) else { return Lane::default() };
    let later = |spans: &VecDeque<LaneSpan>| {
        let mut found: Vec<_> = spans
            .iter()
            .rev()
            // What travels does not end in the order in which it is noted, but nearly.
            .take_while(|span| span.start >= started)
            .map(|span| LaneSpan { start: span.start - started, end: span.end - started, ..*span })
            .take_while(|span| span.end > moment)
            .collect();
        found.sort_by_key(|span| span.start);
        found
    };
    Lane { spans: later(&kept.spans), transfers: later(&kept.transfers) }
}

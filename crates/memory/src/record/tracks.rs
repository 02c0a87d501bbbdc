//! The tracks of the devices: their work over time, noted by the threads that drive them.

use std::{
    cell::Cell,
    collections::VecDeque,
    marker::PhantomData,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use oomph_core::{Account, charge, current_device};
use oomph_timeline::{Track, TrackKind, TrackSpan};

use super::{is_on, nanoseconds};

/// The newest spans kept per device. A pipeline step of eight micro-batches has about 60.
const MOST: usize = 20_000;

/// The spans of each device, on the process's clock.
static TRACKS: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

#[derive(Default)]
struct Kept {
    spans: VecDeque<TrackSpan>,
    transfers: VecDeque<TrackSpan>,
}

thread_local! {
    /// The current work of this thread's device.
    static DOING: Cell<Option<Doing>> = const { Cell::new(None) };
}

#[derive(Clone, Copy, Debug)]
struct Doing {
    device: usize,
    /// The span, whose end is not known yet.
    span: TrackSpan,
}

impl Doing {
    /// Notes the span up to `now`.
    fn note(self, now: u64) {
        note(self.device, TrackSpan { end: now, ..self.span }, |kept| &mut kept.spans);
    }
}

/// Ends the span that [`track`] began.
#[derive(Debug)]
#[must_use = "the span ends when the guard is dropped"]
pub struct TrackGuard {
    begun: bool,
    /// Resumes the outer span when dropped, which must happen on this thread.
    before: PhantomData<*const ()>,
    /// The interrupted span.
    outer: Option<Doing>,
}

/// Begins a span of work of this thread's device, until the guard is dropped. It interrupts the outer span, so spans never
/// overlap. Without a recording it costs one load.
pub fn track(kind: TrackKind, name: &'static str, number: Option<usize>) -> TrackGuard {
    let mut guard = TrackGuard { begun: is_on(), before: PhantomData, outer: None };
    if guard.begun {
        let now = nanoseconds();
        let span = TrackSpan { kind, name, number, start: now, end: now };
        guard.outer = DOING.replace(Some(Doing { device: current_device(), span }));
        if let Some(outer) = guard.outer {
            outer.note(now);
        }
    }
    guard
}

impl Drop for TrackGuard {
    fn drop(&mut self) {
        if !self.begun {
            return;
        }
        let now = nanoseconds();
        let outer = self.outer.map(|outer| Doing { span: TrackSpan { start: now, ..outer.span }, ..outer });
        if let Some(done) = DOING.replace(outer) {
            done.note(now);
        }
    }
}

/// Notes a span that has just ended and interrupts the current one. It serves work that is known only afterwards, such as
/// waiting for other ranks before an all-reduce.
pub fn track_was(kind: TrackKind, name: &'static str, number: Option<usize>, [start, end]: [Instant; 2]) {
    if !is_on() {
        return;
    }
    let [mut start, end] = [start, end].map(moment);
    if let Some(doing) = DOING.get() {
        // Not before the current span began, which two readings of the clock might give.
        start = start.max(doing.span.start);
        doing.note(start);
        DOING.set(Some(Doing { span: TrackSpan { start: end.max(start), ..doing.span }, ..doing }));
    }
    note(current_device(), TrackSpan { kind, name, number, start, end }, |kept| &mut kept.spans);
}

/// Notes a transfer from or to this thread's device, which may overlap its work.
pub fn transfer(name: &'static str, number: Option<usize>, started: Instant, took: Duration) {
    if is_on() {
        let [start, end] = [started, started + took].map(moment);
        let span = TrackSpan { kind: TrackKind::Communication, name, number, start, end };
        note(current_device(), span, |kept| &mut kept.transfers);
    }
}

/// A moment on the clock of the recording.
fn moment(instant: Instant) -> u64 {
    nanoseconds().saturating_sub(instant.elapsed().as_nanos() as u64)
}

fn note(device: usize, span: TrackSpan, of: impl FnOnce(&mut Kept) -> &mut VecDeque<TrackSpan>) {
    if span.start >= span.end {
        return;
    }
    charge(Account::Host, || {
        let mut tracks = kept();
        if tracks.len() <= device {
            tracks.resize_with(device + 1, Kept::default);
        }
        let spans = of(&mut tracks[device]);
        if spans.len() == MOST {
            spans.pop_front();
        }
        spans.push_back(span);
    });
}

fn kept() -> MutexGuard<'static, Vec<Kept>> {
    // A panic leaves whole spans.
    TRACKS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn forget() {
    *kept() = Vec::new();
}

/// The track of a device since `moment`, on the clock of the recording that began at `started`.
pub(super) fn of_device(device: usize, moment: u64, started: u64) -> Track {
    let tracks = kept();
    let Some(kept) = tracks.get(device) else { return Track::default() };
    let later = |spans: &VecDeque<TrackSpan>| {
        let mut found: Vec<_> = spans
            .iter()
            .rev()
            // Transfers end nearly, but not exactly, in the order of their notes.
            .take_while(|span| span.start >= started)
            .map(|span| TrackSpan { start: span.start - started, end: span.end - started, ..*span })
            .take_while(|span| span.end > moment)
            .collect();
        found.sort_by_key(|span| span.start);
        found
    };
    Track { spans: later(&kept.spans), transfers: later(&kept.transfers) }
}

use std::{fmt, ops::Range};

/// The kind of work in a span of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrackKind {
    /// Loading a batch, or uploading one.
    Data,
    /// Forward of a micro-batch.
    Forward,
    /// Backward of a micro-batch.
    Backward,
    /// Clipping and the optimizer.
    Step,
    /// Evaluation.
    Eval,
    /// Sending to or receiving from another device, or waiting for an all-reduce.
    Communication,
    /// Waiting for another device.
    Idle,
}

impl TrackKind {
    /// All of them, in the order of a step.
    pub const ALL: [Self; 7] =
        [Self::Data, Self::Forward, Self::Backward, Self::Step, Self::Eval, Self::Communication, Self::Idle];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Step => "step",
            Self::Eval => "evaluation",
            Self::Communication => "communication",
            Self::Idle => "idle",
        }
    }
}

impl fmt::Display for TrackKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One piece of work of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackSpan {
    /// The kind of work.
    pub kind: TrackKind,
    /// Its name: `forward`.
    pub name: &'static str,
    /// Its number among spans of its name, if it has one: that of the micro-batch.
    pub number: Option<usize>,
    /// Its start, in nanoseconds on the clock of the recording.
    pub start: u64,
    /// Its end.
    pub end: u64,
}

impl TrackSpan {
    /// Nanoseconds of it within a range of time.
    fn within(&self, range: &Range<u64>) -> u64 {
        self.end.min(range.end).saturating_sub(self.start.max(range.start))
    }
}

/// Name and number: `forward 3`.
impl fmt::Display for TrackSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        self.number.map_or(Ok(()), |number| write!(f, " {number}"))
    }
}

/// The work of one device over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// Its work in order, without overlaps. Gaps are idle time.
    pub spans: Vec<TrackSpan>,
    /// Transfers that ran beside the work: all-reduces in flight. They may overlap.
    pub transfers: Vec<TrackSpan>,
}

/// Time of a device by kind. The three add up to the whole range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TrackTimes {
    /// Nanoseconds of work: data, forward, backward, step, evaluation.
    pub busy: u64,
    /// Nanoseconds of communication.
    pub communication: u64,
    /// Nanoseconds without work.
    pub idle: u64,
}

impl TrackTimes {
    /// Nanoseconds of the whole range.
    pub fn total(self) -> u64 {
        self.busy + self.communication + self.idle
    }

    /// The share of `nanoseconds` in the whole range, from 0 to 1; 0 if the range is empty.
    pub fn share(self, nanoseconds: u64) -> f64 {
        if self.total() == 0 { 0.0 } else { nanoseconds as f64 / self.total() as f64 }
    }
}

impl std::ops::AddAssign for TrackTimes {
    fn add_assign(&mut self, more: Self) {
        self.busy += more.busy;
        self.communication += more.communication;
        self.idle += more.idle;
    }
}

impl Track {
    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty() && self.transfers.is_empty()
    }

    /// Busy, communication and idle time within a range of time.
    pub fn times(&self, range: Range<u64>) -> TrackTimes {
        let mut times = TrackTimes::default();
        for (kind, nanoseconds) in TrackKind::ALL.into_iter().zip(self.nanoseconds(range)) {
            match kind {
                TrackKind::Communication => times.communication += nanoseconds,
                TrackKind::Idle => times.idle += nanoseconds,
                _ => times.busy += nanoseconds,
            }
        }
        times
    }

    /// Nanoseconds within a range of time by kind, in the order of [`TrackKind::ALL`]. Gaps count as idle.
    pub fn nanoseconds(&self, range: Range<u64>) -> [u64; TrackKind::ALL.len()] {
        let mut found = TrackKind::ALL.map(|kind| {
            let of_kind = self.spans.iter().filter(|span| span.kind == kind && kind != TrackKind::Idle);
            of_kind.map(|span| span.within(&range)).sum()
        });
        let known: u64 = found.iter().sum();
        let all = range.end.saturating_sub(range.start);
        found[TrackKind::Idle as usize] = all.saturating_sub(known);
        found
    }

    /// The end of the last span or transfer.
    pub fn end(&self) -> u64 {
        self.all().map(|span| span.end).max().unwrap_or(0)
    }

    /// Work and transfers.
    pub fn all(&self) -> impl Iterator<Item = &TrackSpan> {
        self.spans.iter().chain(&self.transfers)
    }

    /// Cuts off everything before `moment`, which becomes time 0.
    pub(crate) fn since(&mut self, moment: u64) {
        self.each(|span| {
            (span.start, span.end) = (span.start.saturating_sub(moment), span.end.saturating_sub(moment));
        });
    }

    /// Cuts off everything after `moment`.
    pub(crate) fn until(&mut self, moment: u64) {
        self.each(|span| {
            (span.start, span.end) = (span.start.min(moment), span.end.min(moment));
        });
    }

    /// Changes all spans and removes those that become empty.
    fn each(&mut self, change: impl Fn(&mut TrackSpan)) {
        for spans in [&mut self.spans, &mut self.transfers] {
            spans.iter_mut().for_each(&change);
            spans.retain(|span| span.start < span.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(kind: TrackKind, start: u64, end: u64) -> TrackSpan {
        TrackSpan { kind, name: kind.name(), number: Some(2), start, end }
    }

    #[test]
    fn busy_communication_and_idle_add_up_to_the_range() {
        let spans = vec![
            span(TrackKind::Forward, 0, 40),
            span(TrackKind::Communication, 40, 50),
            span(TrackKind::Idle, 50, 60),
            span(TrackKind::Backward, 70, 120),
        ];
        let track = Track { spans, transfers: vec![span(TrackKind::Communication, 0, 120)] };
        let times = track.times(20..100);
        assert_eq!(times, TrackTimes { busy: 20 + 30, communication: 10, idle: 20 });
        assert_eq!((times.total(), times.share(times.idle)), (80, 0.25));
        assert_eq!(track.times(200..300), TrackTimes { idle: 100, ..TrackTimes::default() });
        assert_eq!(TrackTimes::default().share(0), 0.0);
    }

    #[test]
    fn a_track_is_cut_with_its_timeline() {
        let mut track = Track {
            spans: vec![span(TrackKind::Forward, 0, 40), span(TrackKind::Backward, 40, 90)],
            transfers: vec![span(TrackKind::Communication, 10, 20)],
        };
        track.since(30);
        assert_eq!(track.spans, [span(TrackKind::Forward, 0, 10), span(TrackKind::Backward, 10, 60)]);
        assert!(track.transfers.is_empty());
        track.until(10);
        assert_eq!(track.spans, [span(TrackKind::Forward, 0, 10)]);
        assert_eq!((track.end(), track.spans[0].to_string()), (10, "forward 2".to_owned()));
    }

    proptest! {
        #[test]
        fn the_times_of_any_track_add_up(
            pieces in prop::collection::vec((prop::sample::select(&TrackKind::ALL), 0u64..50, 0u64..50), 0..20),
            bounds in (0u64..400, 0u64..400),
        ) {
            let mut now = 0;
            let spans = pieces.into_iter().map(|(kind, pause, length)| {
                let start = now + pause;
                now = start + length;
                span(kind, start, now)
            });
            let track = Track { spans: spans.collect(), transfers: Vec::new() };
            let range = bounds.0.min(bounds.1)..bounds.0.max(bounds.1);
            prop_assert_eq!(track.times(range.clone()).total(), range.end - range.start);
        }
    }
}

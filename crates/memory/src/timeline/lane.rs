use std::{fmt, ops::Range};

/// What a device does in a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneKind {
    /// It loads a batch, or takes one onto the device.
    Data,
    /// Forward of a micro-batch.
    Forward,
    /// Backward of a micro-batch.
    Backward,
    /// What follows on the gradients: clipping, the optimizer.
    Step,
    /// Evaluation.
    Eval,
    /// It hands something over to another device or takes it, or waits for sums that are being made.
    Communication,
    /// It waits for another device to be there.
    Idle,
}

impl LaneKind {
    /// All of them, in the order of a step.
    pub const ALL: [Self; 7] =
        [Self::Data, Self::Forward, Self::Backward, Self::Step, Self::Eval, Self::Communication, Self::Idle];

    /// As users read it.
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

impl fmt::Display for LaneKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Something that a device does, from one moment to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSpan {
    /// What it is.
    pub kind: LaneKind,
    /// What it is called: `forward`.
    pub name: &'static str,
    /// Its number among those of its name, such as that of the micro-batch, where it has one.
    pub number: Option<usize>,
    /// When it begins, in nanoseconds on the clock of the recording.
    pub start: u64,
    /// When it has ended.
    pub end: u64,
}

impl LaneSpan {
    /// The part of it within a stretch of time, in nanoseconds.
    fn within(&self, stretch: &Range<u64>) -> u64 {
        self.end.min(stretch.end).saturating_sub(self.start.max(stretch.start))
    }
}

/// Name and number: `forward 3`.
impl fmt::Display for LaneSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        self.number.map_or(Ok(()), |number| write!(f, " {number}"))
    }
}

/// What a device did when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// What it did, in order, never two things at once. Where there is nothing it was idle.
    pub spans: Vec<LaneSpan>,
    /// What travelled meanwhile, whatever the device did: sums that were under way. They may overlap.
    pub transfers: Vec<LaneSpan>,
}

/// How long a device did what. The three add up to the time that was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LaneTimes {
    /// Nanoseconds in which it worked: on data, forward, backward, step, evaluation.
    pub busy: u64,
    /// Nanoseconds in which it did nothing but communicate.
    pub communication: u64,
    /// Nanoseconds in which it did nothing.
    pub idle: u64,
}

impl LaneTimes {
    /// All of the time that was looked at.
    pub fn total(self) -> u64 {
        self.busy + self.communication + self.idle
    }

    /// What part of the time a sum of nanoseconds is, from 0 to 1. 0 of nothing is nothing.
    pub fn share(self, nanoseconds: u64) -> f64 {
        if self.total() == 0 { 0.0 } else { nanoseconds as f64 / self.total() as f64 }
    }
}

impl std::ops::AddAssign for LaneTimes {
    fn add_assign(&mut self, more: Self) {
        self.busy += more.busy;
        self.communication += more.communication;
        self.idle += more.idle;
    }
}

impl Lane {
    /// Whether nothing is known of the device.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty() && self.transfers.is_empty()
    }

    /// How long it did what in a stretch of time.
    pub fn times(&self, stretch: Range<u64>) -> LaneTimes {
        let mut times = LaneTimes::default();
        for (kind, nanoseconds) in LaneKind::ALL.into_iter().zip(self.nanoseconds(stretch)) {
            match kind {
                LaneKind::Communication => times.communication += nanoseconds,
                LaneKind::Idle => times.idle += nanoseconds,
                _ => times.busy += nanoseconds,
            }
        }
        times
    }

    /// The nanoseconds of a stretch of time in which it did what, kind by kind in the order of [`LaneKind::ALL`]. What no
    /// span says is idle.
    pub fn nanoseconds(&self, stretch: Range<u64>) -> [u64; LaneKind::ALL.len()] {
        let mut found = LaneKind::ALL.map(|kind| {
            let of_kind = self.spans.iter().filter(|span| span.kind == kind && kind != LaneKind::Idle);
            of_kind.map(|span| span.within(&stretch)).sum()
        });
        let known: u64 = found.iter().sum();
        let all = stretch.end.saturating_sub(stretch.start);
        found[LaneKind::Idle as usize] = all.saturating_sub(known);
        found
    }

    /// When the last thing ended.
    pub fn end(&self) -> u64 {
        self.all().map(|span| span.end).max().unwrap_or(0)
    }

    /// All that it did and that travelled.
    pub fn all(&self) -> impl Iterator<Item = &LaneSpan> {
        self.spans.iter().chain(&self.transfers)
    }

    /// What is behind a moment, which is the new beginning.
    pub(super) fn since(&mut self, moment: u64) {
        self.each(|span| {
            (span.start, span.end) = (span.start.saturating_sub(moment), span.end.saturating_sub(moment));
        });
    }

    /// What is before a moment.
    pub(super) fn until(&mut self, moment: u64) {
        self.each(|span| {
            (span.start, span.end) = (span.start.min(moment), span.end.min(moment));
        });
    }

    /// Changes all spans, and lets go of those that are no stretch of time then.
    fn each(&mut self, change: impl Fn(&mut LaneSpan)) {
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

    fn span(kind: LaneKind, start: u64, end: u64) -> LaneSpan {
        LaneSpan { kind, name: kind.name(), number: Some(2), start, end }
    }

    #[test]
    fn busy_communication_and_idle_add_up_to_the_stretch() {
        let spans = vec![
            span(LaneKind::Forward, 0, 40),
            span(LaneKind::Communication, 40, 50),
            span(LaneKind::Idle, 50, 60),
            span(LaneKind::Backward, 70, 120),
        ];
        let lane = Lane { spans, transfers: vec![span(LaneKind::Communication, 0, 120)] };
        let times = lane.times(20..100);
        assert_eq!(times, LaneTimes { busy: 20 + 30, communication: 10, idle: 20 });
        assert_eq!((times.total(), times.share(times.idle)), (80, 0.25));
        assert_eq!(lane.times(200..300), LaneTimes { idle: 100, ..LaneTimes::default() });
        assert_eq!(LaneTimes::default().share(0), 0.0);
    }

    #[test]
    fn a_lane_begins_and_ends_with_its_timeline() {
        let mut lane = Lane {
            spans: vec![span(LaneKind::Forward, 0, 40), span(LaneKind::Backward, 40, 90)],
            transfers: vec![span(LaneKind::Communication, 10, 20)],
        };
        lane.since(30);
        assert_eq!(lane.spans, [span(LaneKind::Forward, 0, 10), span(LaneKind::Backward, 10, 60)]);
        assert!(lane.transfers.is_empty());
        lane.until(10);
        assert_eq!(lane.spans, [span(LaneKind::Forward, 0, 10)]);
        assert_eq!((lane.end(), lane.spans[0].to_string()), (10, "forward 2".to_owned()));
    }

    proptest! {
        #[test]
        fn whatever_a_device_did_its_times_add_up(
            pieces in prop::collection::vec((prop::sample::select(&LaneKind::ALL), 0u64..50, 0u64..50), 0..20),
            stretch in (0u64..400, 0u64..400),
        ) {
            let mut now = 0;
            let spans = pieces.into_iter().map(|(kind, pause, length)| {
                let start = now + pause;
                now = start + length;
                span(kind, start, now)
            });
            let lane = Lane { spans: spans.collect(), transfers: Vec::new() };
            let stretch = stretch.0.min(stretch.1)..stretch.0.max(stretch.1);
            prop_assert_eq!(lane.times(stretch.clone()).total(), stretch.end - stretch.start);
        }
    }
}

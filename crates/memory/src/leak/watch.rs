use std::collections::VecDeque;

use oomph_core::Bytes;

use super::{Finding, Growth, Leak, LeakDetector, Point, kinds::grown_kinds};
use crate::{
    account::{Account, charge},
    reading::read,
    record::{self, StepKind},
};

/// Events that are recorded while growth is suspected: 5 MiB.
const EVENTS: usize = 1 << 17;
/// Steps whose ends are remembered.
const MARKS: usize = 9;

/// Looks at the meter after steps, and finds out what grows where something does.
///
/// While nothing grows it reads the meter once a step. Where growth is suspected, some steps are recorded, unless a
/// recording goes on anyway; it ends when growth is certain or gone.
#[derive(Debug)]
pub struct LeakWatch {
    detector: LeakDetector,
    limit_bytes: Option<Bytes>,
    train: Marks,
    eval: Marks,
    /// The point whose growth is suspected, where it is this watch that records.
    records: Option<Point>,
}

/// The numbers of the first events after the latest points of one kind.
#[derive(Debug, Default)]
struct Marks(VecDeque<u64>);

impl LeakWatch {
    /// One that has seen nothing. `limit_bytes` is what the device may use, to say how long a leak may go on.
    pub fn new(limit_bytes: Option<Bytes>) -> Self {
        let (train, eval) = Default::default();
        Self { detector: LeakDetector::new(), limit_bytes, train, eval, records: None }
    }

    /// Compares what is in use now with what was at this point before. What it finds it tells once; see
    /// [`LeakDetector`].
    ///
    /// To be called where a step or an evaluation batch is over and what belongs to it is dropped.
    pub fn check(&mut self, point: Point) -> Option<Leak> {
        charge(Account::Host, || match self.detector.observe(point, read().in_use_bytes) {
            Finding::Steady => {
                if self.records == Some(point) {
                    self.stop();
                }
                self.mark(point);
                None
            }
            Finding::Suspected => {
                if !record::is_on() {
                    record::start(EVENTS);
                    self.records = Some(point);
                }
                self.mark(point);
                None
            }
            Finding::Growth(growth) => {
                self.mark(point);
                Some(self.explain(growth))
            }
        })
    }

    fn explain(&mut self, growth: Growth) -> Leak {
        let recording = record::dump();
        self.stop();
        let kinds = grown_kinds(&recording, self.marks(growth.point).0.make_contiguous());
        Leak { growth, limit_bytes: self.limit_bytes, kinds }
    }

    fn mark(&mut self, point: Point) {
        let marks = &mut self.marks(point).0;
        if marks.len() == MARKS {
            marks.pop_front();
        }
        marks.push_back(record::next_event());
    }

    fn marks(&mut self, point: Point) -> &mut Marks {
        match point.kind {
            StepKind::Train => &mut self.train,
            StepKind::Eval => &mut self.eval,
        }
    }

    fn stop(&mut self) {
        if self.records.take().is_some() {
            record::stop();
        }
    }
}

/// A recording does not go on for a loop that has ended.
impl Drop for LeakWatch {
    fn drop(&mut self) {
        self.stop();
    }
}

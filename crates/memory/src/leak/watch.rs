use std::collections::VecDeque;

use oomph_core::Bytes;

use super::{Finding, Growth, Leak, LeakDetector, Point, kinds::grown_kinds};
use crate::{
    account::{Account, charge},
    reading::read,
    record::{self, StepKind},
};

/// Events recorded while growth is suspected: 5 MiB.
const EVENTS: usize = 1 << 17;
/// The most step ends remembered.
const MARKS: usize = 9;

/// Reads the meter after steps, and reports growth with the growing blocks.
///
/// Without growth it reads the meter once per step. If growth is suspected, it records some steps, unless a recording is
/// already on. The recording ends once the growth is confirmed or ruled out.
#[derive(Debug)]
pub struct LeakWatch {
    detector: LeakDetector,
    limit_bytes: Option<Bytes>,
    train: Marks,
    eval: Marks,
    /// The point of the suspected growth, if this watch started the recording.
    records: Option<Point>,
}

/// The numbers of the first events after the latest points of one kind.
#[derive(Debug, Default)]
struct Marks(VecDeque<u64>);

impl LeakWatch {
    /// A watch without observations. From `limit_bytes`, the device's limit, it estimates how long a leak can last.
    pub fn new(limit_bytes: Option<Bytes>) -> Self {
        let (train, eval) = Default::default();
        Self { detector: LeakDetector::new(), limit_bytes, train, eval, records: None }
    }

    /// Compares the bytes in use with earlier ones at this point. A leak is reported once, then again if its rate doubles; see
    /// [`LeakDetector`].
    ///
    /// Call it after a step or an evaluation batch, when its tensors are dropped.
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

/// Ends the recording with the loop.
impl Drop for LeakWatch {
    fn drop(&mut self) {
        self.stop();
    }
}

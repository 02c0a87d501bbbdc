use std::collections::VecDeque;

use oomph_core::{Account, Bytes, charge};

use super::{Finding, Growth, Leak, LeakDetector, Point, kinds::grown_kinds};
use crate::{reading::read, record};

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
    /// By [`StepKind`](record::StepKind): the numbers of the first events after the latest points.
    marks: [VecDeque<u64>; 2],
    /// The point of the suspected growth, if this watch started the recording.
    records: Option<Point>,
}

impl LeakWatch {
    /// A watch without observations. From `limit_bytes`, the device's limit, it estimates how long a leak can last.
    pub fn new(limit_bytes: Option<Bytes>) -> Self {
        Self { detector: LeakDetector::new(), limit_bytes, marks: Default::default(), records: None }
    }

    /// Compares the bytes in use with earlier ones at this point. A leak is reported once, then again if its rate doubles; see
    /// [`LeakDetector`].
    ///
    /// Call it after a step or an evaluation batch, when its tensors are dropped.
    pub fn check(&mut self, point: Point) -> Option<Leak> {
        charge(Account::Host, || {
            let finding = self.detector.observe(point, read().in_use_bytes);
            if finding == Finding::Steady && self.records == Some(point) {
                self.stop();
            } else if finding == Finding::Suspected && !record::is_on() {
                record::start(EVENTS);
                self.records = Some(point);
            }
            self.mark(point);
            match finding {
                Finding::Growth(growth) => Some(self.explain(growth)),
                Finding::Steady | Finding::Suspected => None,
            }
        })
    }

    fn explain(&mut self, growth: Growth) -> Leak {
        let recording = record::dump();
        self.stop();
        let kinds = grown_kinds(&recording, self.marks[growth.point.kind as usize].make_contiguous());
        Leak { growth, limit_bytes: self.limit_bytes, kinds }
    }

    fn mark(&mut self, point: Point) {
        let marks = &mut self.marks[point.kind as usize];
        if marks.len() == MARKS {
            marks.pop_front();
        }
        marks.push_back(record::next_event());
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

//! The timeline of a pipeline's step by device, simulated or measured.

use crate::pipeline_order::{PipelineOrder, Work};

/// One piece of work of a device, with its times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// The work.
    pub work: Work,
    /// Its start in seconds.
    pub start_seconds: f64,
    /// Its end in seconds.
    pub end_seconds: f64,
}

/// The work of each device in a step, with its times.
///
/// [`play`](Self::play) simulates it; measured spans go into `devices`. [`diagram`](crate::diagram) draws it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipelineTrace {
    /// The spans of each device, in order.
    pub devices: Vec<Vec<Span>>,
}

impl PipelineTrace {
    /// Simulates an order. `seconds` is the time that a device takes for a piece of work. `handover_seconds` is the time
    /// that an activation or a gradient takes to the next device, while both devices go on working.
    ///
    /// ```
    /// use oomph_parallel::{PipelineTrace, PipelineOrder, Work};
    ///
    /// let seconds = |_device, work| match work {
    ///     Work::Forward(_) => 1.0,
    ///     Work::Backward(_) => 2.0,
    /// };
    /// let trace = PipelineTrace::play(PipelineOrder::OneForwardOneBackward, 4, 8, seconds, 0.0);
    /// assert_eq!(trace.seconds(), (8.0 + 3.0) * 3.0);
    /// assert_eq!(trace.bubble(), 3.0 / 11.0);
    /// ```
    pub fn play(
        order: PipelineOrder,
        devices: usize,
        micro_batches: usize,
        seconds: impl Fn(usize, Work) -> f64,
        handover_seconds: f64,
    ) -> Self {
        let work: Vec<_> = (0..devices).map(|device| order.work(device, devices, micro_batches)).collect();
        let mut trace = Self { devices: vec![Vec::new(); devices] };
        // A round in which no device can begin is the last one. Everything is done then, as no order deadlocks (a
        // property test of `PipelineOrder`).
        let mut is_going_on = true;
        while is_going_on {
            is_going_on = false;
            for (device, work) in work.iter().enumerate() {
                while let Some(next) = work.get(trace.devices[device].len())
                    && let Some(start_seconds) = trace.ready(device, *next, handover_seconds)
                {
                    let end_seconds = start_seconds + seconds(device, *next);
                    trace.devices[device].push(Span { work: *next, start_seconds, end_seconds });
                    is_going_on = true;
                }
            }
        }
        trace
    }

    /// The time at which a device can begin `work`; `None` while its input is missing.
    fn ready(&self, device: usize, work: Work, handover_seconds: f64) -> Option<f64> {
        let free = self.devices[device].last().map_or(0.0, |span| span.end_seconds);
        let Some((maker, needed)) = work.needs(device, self.devices.len()) else { return Some(free) };
        let made = self.devices[maker].iter().rev().find(|span| span.work == needed)?.end_seconds;
        Some(free.max(if maker == device { made } else { made + handover_seconds }))
    }

    /// The start of the first work, in seconds.
    pub fn start_seconds(&self) -> f64 {
        self.spans().map(|span| span.start_seconds).reduce(f64::min).unwrap_or(0.0)
    }

    /// The end of the last work, in seconds.
    pub fn end_seconds(&self) -> f64 {
        self.spans().map(|span| span.end_seconds).reduce(f64::max).unwrap_or(0.0)
    }

    /// The time from the first start to the last end.
    pub fn seconds(&self) -> f64 {
        self.end_seconds() - self.start_seconds()
    }

    /// The total working time of a device.
    pub fn busy_seconds(&self, device: usize) -> f64 {
        let spans = self.devices.get(device).into_iter().flatten();
        spans.map(|span| span.end_seconds - span.start_seconds).sum()
    }

    /// The share of the time in which a device is idle, from 0 to 1.
    pub fn idle_share(&self, device: usize) -> f64 {
        share(self.seconds() - self.busy_seconds(device), self.seconds())
    }

    /// The idle share of the time of all devices together, from 0 to 1.
    pub fn bubble(&self) -> f64 {
        let all = self.seconds() * self.devices.len() as f64;
        let busy: f64 = (0..self.devices.len()).map(|device| self.busy_seconds(device)).sum();
        share(all - busy, all)
    }

    pub(crate) fn spans(&self) -> impl Iterator<Item = &Span> {
        self.devices.iter().flatten()
    }
}

/// `part / whole`, and 0 of nothing. Sums of measured times may differ by a rounding, so the share is clamped.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [PipelineOrder; 3] =
        [PipelineOrder::Sequential, PipelineOrder::GPipe, PipelineOrder::OneForwardOneBackward];

    fn play(order: PipelineOrder, devices: usize, micro_batches: usize) -> PipelineTrace {
        let seconds = |_, work| if matches!(work, Work::Forward(_)) { 1.0 } else { 2.0 };
        PipelineTrace::play(order, devices, micro_batches, seconds, 0.0)
    }

    #[test]
    fn a_device_waits_for_the_one_before_and_for_the_handover() {
        let seconds = |device, work| match (device, work) {
            (0, Work::Forward(_)) => 1.0,
            (_, Work::Forward(_)) => 3.0,
            (_, Work::Backward(_)) => 4.0,
        };
        let trace = PipelineTrace::play(PipelineOrder::OneForwardOneBackward, 2, 2, seconds, 0.5);
        let times = |device: usize| -> Vec<_> {
            trace.devices[device]
                .iter()
                .map(|span| (span.work, span.start_seconds, span.end_seconds))
                .collect()
        };
        use Work::{Backward, Forward};
        assert_eq!(
            times(0),
            [
                (Forward(0), 0.0, 1.0),
                (Forward(1), 1.0, 2.0),
                (Backward(0), 9.0, 13.0),
                (Backward(1), 16.0, 20.0)
            ]
        );
        assert_eq!(
            times(1),
            [
                (Forward(0), 1.5, 4.5),
                (Backward(0), 4.5, 8.5),
                (Forward(1), 8.5, 11.5),
                (Backward(1), 11.5, 15.5)
            ]
        );
        assert_eq!(trace.seconds(), 20.0);
        assert_eq!(trace.idle_share(0), 0.5);
        assert_eq!(trace.idle_share(1), 6.0 / 20.0);
        assert_eq!(trace.bubble(), 16.0 / 40.0);
    }

    #[test]
    fn measured_spans_need_not_begin_at_zero() {
        let span = |start_seconds, end_seconds| Span { work: Work::Forward(0), start_seconds, end_seconds };
        let trace = PipelineTrace { devices: vec![vec![span(10.0, 12.0)], vec![span(12.0, 14.0)]] };
        assert_eq!((trace.seconds(), trace.bubble()), (4.0, 0.5));
    }

    #[test]
    fn nothing_takes_no_time() {
        assert_eq!(play(PipelineOrder::GPipe, 3, 0).seconds(), 0.0);
        assert_eq!(play(PipelineOrder::GPipe, 3, 0).bubble(), 0.0);
        assert_eq!(PipelineTrace::default().bubble(), 0.0);
    }

    proptest! {
        #[test]
        fn equal_devices_have_the_bubble_of_the_literature(devices in 1usize..20, micro_batches in 1usize..60) {
            let (p, m) = (devices as f64, micro_batches as f64);
            for order in [PipelineOrder::GPipe, PipelineOrder::OneForwardOneBackward] {
                let trace = play(order, devices, micro_batches);
                prop_assert_eq!(trace.seconds(), (m + p - 1.0) * 3.0);
                prop_assert_eq!(trace.bubble(), (p - 1.0) / (m + p - 1.0));
            }
            let trace = play(PipelineOrder::Sequential, devices, micro_batches);
            prop_assert_eq!(trace.seconds(), m * p * 3.0);
            prop_assert_eq!(trace.bubble(), (p - 1.0) / p);
        }

        #[test]
        fn work_begins_after_its_inputs_and_a_device_does_one_thing_at_a_time(
            order in prop::sample::select(&ALL), micro_batches in 0usize..12, handover in 0.0..2.0f64,
            times in prop::collection::vec((0.0..3.0f64, 0.0..3.0f64), 1..6),
        ) {
            let seconds = |device: usize, work| match work {
                Work::Forward(_) => times[device].0,
                Work::Backward(_) => times[device].1,
            };
            let trace = PipelineTrace::play(order, times.len(), micro_batches, seconds, handover);
            for (device, spans) in trace.devices.iter().enumerate() {
                prop_assert_eq!(spans.len(), 2 * micro_batches);
                prop_assert!(spans.windows(2).all(|pair| pair[0].end_seconds <= pair[1].start_seconds));
                for span in spans {
                    let Some((maker, needed)) = span.work.needs(device, times.len()) else { continue };
                    let made = trace.devices[maker].iter().find(|span| span.work == needed).unwrap();
                    let under_way = if maker == device { 0.0 } else { handover };
                    prop_assert!(made.end_seconds + under_way <= span.start_seconds);
                }
            }
        }
    }
}

use oomph_core::Bytes;
use oomph_engine::{
    layout::{Role, Scatter},
    session::{Session, StepSplit, bytes_of_smallest},
};
use oomph_parallel::{PipelineTrace, Span, Work};
use oomph_plan::{Backend, time::cost};

use super::{
    device_recording::{DeviceWork, STEPS, record, sizes},
    splitter::timeline_of_device,
};
use crate::error::PlanError;

/// A step of a coordinator and its replicas.
pub(super) struct Coordinated<'a> {
    session: &'a Session,
    pub(super) backend: Backend,
    pub(super) split: StepSplit,
    pub(super) scatter: Scatter,
    /// Samples of a step.
    pub(super) batch: usize,
    /// Samples of one round.
    pub(super) round: usize,
}

impl<'a> Coordinated<'a> {
    /// The number of rounds to record. Later rounds repeat them.
    const ALIKE: usize = 3;

    /// A step of `batch` samples in rounds of as many micro-batches as there are devices.
    pub(super) fn new(
        session: &'a Session,
        batch: usize,
        backend: Backend,
        scatter: Scatter,
        split: StepSplit,
    ) -> Self {
        let round = scatter.round(batch, split.micro_batch);
        Self { session, backend, split, scatter, batch, round }
    }

    /// The planned need of the fullest device, [scaled](bytes_of_smallest).
    pub(super) fn peak_of_fullest(&self) -> Result<Bytes, PlanError> {
        let need = |device| -> Result<Bytes, PlanError> {
            let recording = record(self.session, &self.work(device, None), self.backend)?;
            let timeline = timeline_of_device(self.session, &recording, device, self.backend, self.batch);
            Ok(bytes_of_smallest(self.session, device, timeline.needed_bytes()))
        };
        (0..self.scatter.devices).try_fold(Bytes::default(), |most, device| Ok(most.max(need(device)?)))
    }

    /// The planned seconds of a step.
    pub(super) fn seconds(&self) -> Result<f64, PlanError> {
        let of = |device| self.work(device, None).seconds(self.session, self.backend);
        let seconds: Vec<f64> = (0..self.scatter.devices).map(of).collect::<Result<_, _>>()?;
        Ok(self.trace(&seconds, self.batch.div_ceil(self.round))?.seconds())
    }

    /// The work of a device in `steps` steps with all their rounds, or in as few of both as show the peak.
    pub(super) fn work(&self, device: usize, steps: Option<usize>) -> DeviceWork {
        let scatter = self.scatter;
        let most_whole = if steps.is_some() { usize::MAX } else { Self::ALIKE };
        DeviceWork {
            device,
            role: if device == 0 { Role::Coordinator(scatter) } else { Role::Replica { device, scatter } },
            sizes: sizes(self.batch, self.round, most_whole),
            steps: steps.unwrap_or(STEPS),
            ..DeviceWork::alone(self.session, self.batch, self.split.clone())
        }
    }

    /// The estimated work of each device over time. All devices run forward, the coordinator gathers the outputs and
    /// computes the loss, and all devices run backward. The sums and the optimizer count as part of the coordinator's
    /// last backward.
    pub(super) fn trace(&self, seconds: &[f64], micro_batches: usize) -> Result<PipelineTrace, PlanError> {
        let mut trace = PipelineTrace { devices: vec![Vec::new(); seconds.len()] };
        let mut free = vec![0.0; seconds.len()];
        for index in 0..micro_batches {
            let forward: Vec<f64> = free.iter().zip(seconds).map(|(start, of)| start + of / 3.0).collect();
            let gathered = forward.iter().copied().fold(0.0, f64::max);
            for (device, of) in seconds.iter().enumerate() {
                let back = gathered + of * 2.0 / 3.0;
                let span = |work, start_seconds, end_seconds| Span { work, start_seconds, end_seconds };
                trace.devices[device].extend([
                    span(Work::Forward(index), free[device], forward[device]),
                    span(Work::Backward(index), gathered, back),
                ]);
                free[device] = back;
            }
        }
        // Then the coordinator sums the gradients, and the replicas wait.
        let all_done = free.iter().copied().fold(0.0, f64::max);
        if let Some(last) = trace.devices[0].last_mut() {
            let work = self.work(0, None);
            let all = cost(
                &record(self.session, &work.first_micro_batch(), self.backend)?,
                self.session.speeds.of(self.backend),
            );
            // Beyond forward and backward: the loss, the sums and the optimizer.
            let beside = (all - work.seconds(self.session, self.backend)?).max(0.0);
            last.end_seconds = all_done + beside;
        }
        Ok(trace)
    }
}

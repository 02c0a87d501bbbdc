//! The split points of a model over devices, and the work of each device.

use std::{iter::once, ops::Range};

use oomph_config::{Balance, Cut, Sharing};
use oomph_core::Bytes;
use oomph_engine::{
    layout::Role,
    session::{Session, StepSplit, bytes_of_smallest, check_names},
};
use oomph_parallel::{PipelineOrder, PipelineTrace, Work, best_cut, cut_by_names};
use oomph_plan::{Backend, Head, Recording, replay};
use oomph_timeline::Timeline;

use super::device_recording::{DeviceWork, different, record, sizes};
use crate::error::PlanError;

/// Micro-batches to record beyond those that fill a pipeline. Later ones repeat them.
const BEYOND: usize = 2;

/// Plans a model on the devices of a session for any assignment of stages. A single device has all stages.
pub(super) struct Splitter<'a> {
    session: &'a Session,
    backend: Backend,
    pub(super) split: StepSplit,
    /// Samples of a step.
    pub(super) batch: usize,
    /// The order of forwards and backwards.
    order: PipelineOrder,
    devices: usize,
}

impl<'a> Splitter<'a> {
    /// A splitter for steps of `batch` samples with the micro-batch and recompute of `split`.
    pub(super) fn new(session: &'a Session, batch: usize, backend: Backend, split: StepSplit) -> Self {
        let order = session.pipeline_order();
        let devices = if order.is_some() { session.config.device.devices.len() } else { 1 };
        Self { session, backend, split, batch, order: order.unwrap_or(PipelineOrder::Sequential), devices }
    }

    pub(super) fn micro_batches(&self) -> usize {
        self.batch.div_ceil(self.split.micro_batch)
    }

    /// The stages of each device: as configured, or so that the largest planned peak, or the longest time, of a device
    /// is as small as possible.
    ///
    /// # Errors
    /// If a configured stage does not exist, or if there are fewer stages than devices.
    pub(super) fn stages(&self) -> Result<Vec<Range<usize>>, PlanError> {
        let session = self.session;
        let names: Vec<&str> = session.stages.iter().map(String::as_str).collect();
        let mut cost = match session.config.device.sharing.cut() {
            Some(Cut::At(at)) => {
                check_names(&session.config, "device.split_points", at, &names)?;
                return Ok(cut_by_names(&names, at, self.devices)?);
            }
            Some(Cut::Balanced(balance)) => {
                |stages: Range<usize>, device: usize| -> Result<u64, PlanError> {
                    match balance {
                        Balance::Memory => Ok(self.fullness(stages, device)?.get()),
                        Balance::Time => {
                            let seconds = self.work(stages, device).seconds(session, self.backend)?;
                            // Nanoseconds.
                            Ok((seconds * 1e9) as u64)
                        }
                    }
                }
            }
            None => return Ok(once(0..names.len()).collect()),
        };
        best_cut(names.len(), self.devices, &mut cost)
    }

    /// The planned need of the fullest device, [scaled](bytes_of_smallest).
    pub(super) fn peak_of_fullest(&self) -> Result<Bytes, PlanError> {
        let stages = self.stages()?;
        let mut peaks =
            stages.iter().enumerate().map(|(device, stages)| self.fullness(stages.clone(), device));
        peaks.try_fold(Bytes::default(), |most, peak| Ok(most.max(peak?)))
    }

    /// The planned need of a device, [scaled](bytes_of_smallest).
    pub(super) fn fullness(&self, stages: Range<usize>, device: usize) -> Result<Bytes, PlanError> {
        let timeline = self.replayed(&self.recording(stages, device)?, device);
        Ok(bytes_of_smallest(self.session, device, timeline.needed_bytes()))
    }

    /// The planned seconds of forwards and backwards of a step.
    pub(super) fn seconds(&self) -> Result<f64, PlanError> {
        let of = |(device, stages)| self.work(stages, device).seconds(self.session, self.backend);
        let seconds: Vec<f64> = self.stages()?.into_iter().enumerate().map(of).collect::<Result<_, _>>()?;
        Ok(self.trace(&seconds).seconds())
    }

    /// The estimated work of each device over time, from the seconds of forward and backward of a micro-batch. A forward counts
    /// as a third of both.
    pub(super) fn trace(&self, seconds: &[f64]) -> PipelineTrace {
        let of = |device: usize, work| match work {
            Work::Forward(_) => seconds[device] / 3.0,
            Work::Backward(_) => seconds[device] * 2.0 / 3.0,
        };
        PipelineTrace::play(self.order, seconds.len(), self.micro_batches(), of, 0.0)
    }

    pub(super) fn recording(&self, stages: Range<usize>, device: usize) -> Result<Recording, PlanError> {
        record(self.session, &self.work(stages, device), self.backend)
    }

    pub(super) fn replayed(&self, recording: &Recording, device: usize) -> Timeline {
        timeline_of_device(self.session, recording, device, self.backend, self.batch)
    }

    /// The work of a device, with as few steps and micro-batches as show its peak.
    pub(super) fn work(&self, stages: Range<usize>, device: usize) -> DeviceWork {
        let most_whole = match self.order {
            PipelineOrder::Sequential => different(self.session),
            _ => self.in_flight(device) + BEYOND,
        };
        DeviceWork {
            device,
            role: Role::Stages { device, devices: self.devices, order: self.order },
            stages,
            sizes: sizes(self.batch, self.split.micro_batch, most_whole),
            ..DeviceWork::alone(self.session, self.batch, self.split.clone())
        }
    }

    /// The number of micro-batches whose activations a device holds at the same time.
    pub(super) fn in_flight(&self, device: usize) -> usize {
        self.order.in_flight(device, self.devices, self.micro_batches())
    }
}

pub(super) fn timeline_of_device(
    session: &Session,
    recording: &Recording,
    device: usize,
    backend: Backend,
    batch: usize,
) -> Timeline {
    let name = session.architecture.name();
    let title = match session.has_uneven_devices() {
        true => format!("{name} · batch {batch} · device {device}"),
        false => format!("{name} · batch {batch}"),
    };
    let limit_bytes = session.limit_of(device);
    let device = session.config.device.devices[device].to_string();
    replay(recording, backend, Head { title, device, limit_bytes })
}

/// The session with fixed split points: those of `stages`.
pub(crate) fn with_split_points(session: &Session, stages: &[Range<usize>]) -> Session {
    let names = stages.iter().skip(1).map(|stages| session.stages[stages.start].clone()).collect();
    let mut config = session.config.clone();
    if let Sharing::Model { cut } | Sharing::Pipeline { cut, .. } = &mut config.device.sharing {
        *cut = Cut::At(names);
    }
    session.with_config(config)
}

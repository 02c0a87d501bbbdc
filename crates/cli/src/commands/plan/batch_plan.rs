use std::{collections::BTreeSet, path::PathBuf, time::Instant};

use oomph_advice::{
    out_of_memory::{Advice, Subject, advise_on},
    planning::{
        BatchNeed, PlanOptions, PlannedTime, describe_choice, describe_settings, fits, largest_batch,
        micro_batch, plan_with_time,
    },
    varied,
};
use oomph_config::Change;
use oomph_core::{Bytes, Split, threads};
use oomph_engine::session::SplitKey;
use oomph_timeline::{Split as Categories, Timeline};
use serde::Serialize;

use super::{
    arguments::PlanArguments,
    planner::{Planner, Rules},
};
use crate::error::CliError;

/// Plans of several batches, each the same for all devices; as JSON.
#[derive(Debug, Serialize)]
pub(super) struct BatchPlan {
    pub(super) model: String,
    pub(super) optimizer: String,
    /// The memory settings in words.
    pub(super) policy: String,
    device: String,
    /// How several devices share the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    strategy: Option<&'static str>,
    /// The number of replicas of the model.
    pub(super) world_size: usize,
    #[serde(flatten)]
    pub(super) rules: Rules,
    /// The memory limit of each device; the smallest one of several.
    pub(super) limit_bytes: Option<Bytes>,
    pub(super) micro_batch: usize,
    pub(super) largest_batch: Option<usize>,
    pub(super) largest_batch_planned_peak_bytes: Option<Bytes>,
    #[serde(flatten)]
    pub(super) way_out: WayOut,
    pub(super) batches: Vec<PlannedBatch>,
    #[serde(flatten)]
    pub(super) seconds: Seconds,
    #[serde(skip)]
    pub(super) text: TextOnly,
}

/// Settings that make a batch fit which does not.
#[derive(Debug, Default, Serialize)]
pub(super) struct WayOut {
    pub(super) levers: Vec<Advice>,
    /// The batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) levers_batch: Option<usize>,
}

/// Values for the text alone.
#[derive(Debug)]
pub(super) struct TextOnly {
    pub(super) sample: String,
    pub(super) train_samples: usize,
    /// Whether the data is not there, so that there may be more samples.
    pub(super) is_declared: bool,
    /// The devices and their limits.
    pub(super) place: String,
    /// The config's batch.
    pub(super) batch: usize,
    /// Its samples per device.
    pub(super) share: usize,
    /// Samples per device of the largest batch.
    pub(super) largest_share: Option<usize>,
    /// The timeline files.
    pub(super) files: Vec<PathBuf>,
    /// Where times come from, or how to get them.
    pub(super) speed: Option<String>,
}

/// Times of the training and of the planning.
#[derive(Debug, Serialize)]
pub(super) struct Seconds {
    #[serde(flatten)]
    pub(super) training: Option<TrainingTime>,
    pub(super) plan_seconds: f64,
}

/// The planned time of the config's training.
#[derive(Debug, Serialize)]
pub(super) struct TrainingTime {
    /// Seconds of an epoch with its evaluations.
    pub(super) planned_epoch_seconds: f64,
    /// Seconds of all steps and evaluations.
    pub(super) planned_seconds: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct PlannedBatch {
    pub(super) batch: usize,
    /// Samples per device; the most of any device.
    pub(super) samples_per_device: usize,
    #[serde(flatten)]
    pub(super) planned: Option<PlannedPeak>,
    /// What `auto` chooses, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) auto: Option<String>,
    /// Why the batch cannot be planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<String>,
}

impl PlannedBatch {
    /// What the batch needs, if it can be planned.
    fn need(&self) -> Option<BatchNeed> {
        let planned = self.planned.as_ref()?;
        Some(BatchNeed { batch: self.batch, planned_peak_bytes: planned.needed_bytes })
    }
}

#[derive(Debug, Serialize)]
pub(super) struct PlannedPeak {
    pub(super) planned_peak_bytes: Bytes,
    /// The most bytes that the pools of a GPU reserve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) planned_reserved_bytes: Option<Bytes>,
    /// The most bytes in host memory, with `memory.offload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) planned_offloaded_bytes: Option<Bytes>,
    /// What decides whether it fits.
    #[serde(skip)]
    needed_bytes: Bytes,
    pub(super) fits: Option<bool>,
    pub(super) categories: Categories,
    peak_phase: String,
    peak_stage: String,
    plan_seconds: f64,
    /// Seconds of a step, if the speed of the device is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) planned_step_seconds: Option<f64>,
    #[serde(skip)]
    time: Option<PlannedTime>,
}

/// Plans the batches of the command line, and writes the timeline files.
pub(super) fn plan(planner: &Planner, arguments: &PlanArguments) -> Result<BatchPlan, CliError> {
    let batches = planner.batches(arguments)?;
    let (session, batch) = (&planner.session, planner.session.config.train.batch);
    let too_large = too_large(&batches, batch);
    let way_out = || too_large.map(|batch| planner.way_out(batch)).unwrap_or_default();
    let (largest, way_out) = threads::both(|| planner.largest(&batches), way_out);
    let (largest, files) = (largest?, planner.write_timeline(arguments)?);
    Ok(BatchPlan {
        model: session.architecture.name().to_owned(),
        optimizer: planner.optimizer(),
        policy: describe_settings(session),
        device: planner.names.join(","),
        strategy: session.config.device.sharing.name(),
        world_size: session.world_size(),
        rules: planner.rules(),
        limit_bytes: planner.limit_bytes,
        micro_batch: micro_batch(session),
        largest_batch: largest.map(|largest| largest.batch),
        largest_batch_planned_peak_bytes: largest.map(|largest| largest.planned_peak_bytes),
        way_out,
        seconds: Seconds { training: planner.time(&batches), plan_seconds: 0.0 },
        batches,
        text: TextOnly {
            sample: session.spec().input.to_string(),
            train_samples: session.source.len(Split::Train),
            is_declared: session.source.is_declared(),
            place: planner.place(),
            batch,
            share: session.share_of(batch),
            largest_share: largest.map(|largest| session.share_of(largest.batch)),
            files,
            speed: planner.speed(),
        },
    })
}

/// What a plan keeps in host memory, if anything.
pub(super) fn offloaded(timeline: &Timeline) -> Option<Bytes> {
    Some(timeline.offloaded.total()).filter(|bytes| *bytes > Bytes::default())
}

/// The batch to advise about: the config's, where it is planned, else the smallest; if it does not fit.
fn too_large(batches: &[PlannedBatch], of_config: usize) -> Option<usize> {
    let does_not_fit =
        |row: &&PlannedBatch| row.planned.as_ref().is_some_and(|planned| planned.fits == Some(false));
    let own = batches.iter().find(|row| row.batch == of_config);
    let subject = own.or_else(|| batches.iter().find(does_not_fit));
    subject.filter(does_not_fit).map(|row| row.batch)
}

impl Planner {
    /// The batches of `--batch`; else the config's batch, and usual ones that there are samples for and that the model can be
    /// trained on.
    fn batches(&self, arguments: &PlanArguments) -> Result<Vec<PlannedBatch>, CliError> {
        if !arguments.batch.is_empty() {
            let asked: BTreeSet<usize> = arguments.batch.iter().map(|batch| *batch as usize).collect();
            let alone = asked.len() == 1;
            let refuse = |batch, error: CliError| match error {
                CliError::Train(error) if !alone => Ok(self.refused(batch, error.to_string())),
                error => Err(error),
            };
            let planned = self.planned(asked).into_iter();
            return planned.map(|(batch, planned)| planned.or_else(|error| refuse(batch, error))).collect();
        }
        let own = self.session.config.train.batch;
        let usual: BTreeSet<usize> = [1, 8, 64, 512, own].into();
        let source = &self.session.source;
        let are_there =
            |batch: &usize| *batch == own || source.is_declared() || *batch <= source.len(Split::Train);
        let planned = self.planned(usual.into_iter().filter(are_there).collect()).into_iter();
        planned
            .filter(|(batch, planned)| *batch == own || planned.is_ok())
            .map(|(_, planned)| planned)
            .collect()
    }

    /// All of these batches, each planned by one thread.
    fn planned(&self, batches: BTreeSet<usize>) -> Vec<(usize, Result<PlannedBatch, CliError>)> {
        let batches: Vec<_> = batches.into_iter().collect();
        let planned = threads::map(&batches, |batch| self.batch(*batch));
        batches.into_iter().zip(planned).collect()
    }

    fn batch(&self, batch: usize) -> Result<PlannedBatch, CliError> {
        let start = Instant::now();
        let (timeline, time) = self.planned_batch(batch)?;
        let peak = timeline.peak();
        let planned_peak_bytes = peak.categories.total();
        let (phase, stage) = timeline.place_of(peak.event);
        let planned = PlannedPeak {
            planned_peak_bytes,
            planned_reserved_bytes: timeline.reserved_peak(),
            planned_offloaded_bytes: offloaded(&timeline),
            needed_bytes: timeline.needed_bytes(),
            fits: self.limit_bytes.map(|limit| fits(timeline.needed_bytes(), limit, self.backend)),
            categories: peak.categories,
            peak_phase: phase.to_owned(),
            peak_stage: stage.to_owned(),
            plan_seconds: start.elapsed().as_secs_f64(),
            planned_step_seconds: time.map(|time| time.step_seconds),
            time,
        };
        let samples_per_device = self.session.share_of(batch);
        let key = SplitKey { batch, backend: self.backend, limit_bytes: self.limit_bytes };
        let auto = describe_choice(&self.session, key);
        Ok(PlannedBatch { batch, samples_per_device, planned: Some(planned), auto, refused: None })
    }

    /// The time of the config's training, if its batch is among these.
    fn time(&self, batches: &[PlannedBatch]) -> Option<TrainingTime> {
        let session = &self.session;
        let own = batches.iter().find(|row| row.batch == session.config.train.batch)?;
        let time = own.planned.as_ref()?.time?;
        // Nobody knows how many samples there are of data that is not there.
        (!session.source.is_declared()).then(|| TrainingTime {
            planned_epoch_seconds: time.epoch_seconds(session),
            planned_seconds: time.seconds_after(session, 0),
        })
    }

    fn refused(&self, batch: usize, reason: String) -> PlannedBatch {
        let samples_per_device = self.session.share_of(batch);
        PlannedBatch { batch, samples_per_device, planned: None, auto: None, refused: Some(reason) }
    }

    fn planned_batch(&self, batch: usize) -> Result<(Timeline, Option<PlannedTime>), CliError> {
        let options = PlanOptions { batch: Some(batch), ..self.options() };
        let (mut timeline, time) = plan_with_time(&self.session, options)?;
        timeline.device.clone_from(&self.names[0]);
        Ok((timeline, time))
    }

    /// The largest batch that fits, of at most all training samples.
    fn largest(&self, rows: &[PlannedBatch]) -> Result<Option<BatchNeed>, CliError> {
        let Some(limit_bytes) = self.limit_bytes else { return Ok(None) };
        let most = self.session.source.len(Split::Train);
        let planned: Vec<_> = rows.iter().filter_map(PlannedBatch::need).collect();
        Ok(largest_batch(&self.session, self.options(), limit_bytes, most, &planned)?)
    }

    fn write_timeline(&self, arguments: &PlanArguments) -> Result<Vec<PathBuf>, CliError> {
        if arguments.html.as_ref().or(arguments.svg.as_ref()).is_none() {
            return Ok(Vec::new());
        }
        let batch = arguments.batch.first().map_or(self.session.config.train.batch, |batch| *batch as usize);
        arguments.write(&self.planned_batch(batch)?.0)
    }

    fn way_out(&self, batch: usize) -> WayOut {
        // A batch that contradicts the config, such as one below its micro-batch, is not trained.
        let varied = varied(&self.session, &[Change::Batch(batch)]);
        let Some((limit, session)) = self.limit_bytes.zip(varied.ok()) else { return WayOut::default() };
        // The largest batch has a line of its own.
        let levers = advise_on(Subject::TrainingOfBatch, &session, limit, self.backend).levers;
        WayOut { levers, levers_batch: Some(batch) }
    }
}

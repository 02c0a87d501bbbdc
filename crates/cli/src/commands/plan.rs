use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Instant,
};

use clap::Args;
use oomph_config::{Config, DeviceName, OptimizerKind};
use oomph_core::{Bytes, Split};
use oomph_memory::{
    Split as Categories, Timeline, export,
    gpu::{GpuMemory, SeveralGpus},
};
use oomph_trainer::{
    Advice, Backend, LargestBatch, PlanOptions, Registry, Session, advise, backend, default_limit, fits,
    largest_batch, plan,
};
use serde::Serialize;

use crate::{
    configuration::{ConfigArguments, DeviceArguments, Flag, StrategyArguments},
    error::CliError,
    exit::Exit,
    output,
};

use self::report::report;

mod cut;
mod report;

#[derive(Args, Debug)]
#[command(after_help = "\
Nothing is executed and no tensor allocated: a step is recorded, and the device's allocator played over it.

Examples:
  oomph plan
  oomph plan --config synthetic-resnet50 --batch 1,8,64,512 --gpu 24GiB
  oomph plan --config synthetic-resnet50 --gpu \"RTX 4090\" --html plan.html
  oomph plan --config synthetic-resnet50 --gpu \"4xRTX 4090\"
  oomph plan --config synthetic-resnet50 --strategy pipeline --gpu 2x24GiB,1x16GiB")]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    config: ConfigArguments,
    /// Batches to plan [default: 1, 8, 64, 512 and that of the config]
    // A thousand million samples keep every product within 64 bits.
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    batch: Vec<u32>,
    /// Plan for a GPU of this memory, such as `8GiB`, or of this name, such as `RTX 4090`; for several
    /// with their number, `4x24GiB`, or one by one, `24GiB,16GiB`
    #[arg(long, value_name = "GPUS", conflicts_with_all = ["memory_limit", "devices"])]
    gpu: Option<String>,
    #[command(flatten)]
    device: DeviceArguments,
    #[command(flatten)]
    strategy: StrategyArguments,
    /// Also write the timeline of the config's batch, or of the first one given, as a page to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What was planned.
#[derive(Debug, Serialize)]
struct Plan {
    model: String,
    optimizer: String,
    /// The memory policy in words.
    policy: String,
    device: String,
    /// How several devices share the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    strategy: Option<&'static str>,
    /// How many devices have a replica of the model, one where it is not replicated.
    world_size: usize,
    rules_verified: bool,
    margin: f64,
    /// What each device may use; of several the least.
    limit_bytes: Option<Bytes>,
    micro_batch: usize,
    largest_batch: Option<usize>,
    largest_batch_planned_peak_bytes: Option<Bytes>,
    /// What makes the config's own batch fit, where it does not.
    levers: Vec<Advice>,
    batches: Vec<PlannedBatch>,
    plan_seconds: f64,
    #[serde(skip)]
    shown: Shown,
}

/// What only people read.
#[derive(Debug)]
struct Shown {
    sample: String,
    train_samples: usize,
    /// The devices and what they may use.
    place: String,
    batch: usize,
    /// What a device has of it.
    share: usize,
    /// What each device has of the largest batch.
    largest_share: Option<usize>,
    page: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct PlannedBatch {
    batch: usize,
    /// What a device has of it, the most that any has.
    samples_per_device: usize,
    #[serde(flatten)]
    planned: Option<Planned>,
    /// Why there is no plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

#[derive(Debug, Serialize)]
struct Planned {
    planned_peak_bytes: Bytes,
    fits: Option<bool>,
    categories: Categories,
    peak_phase: String,
    peak_stage: String,
    plan_seconds: f64,
}

pub(crate) fn run(arguments: &PlanArguments, registry: &Registry) -> Result<Exit, CliError> {
    let start = Instant::now();
    let (config, gpus) = arguments.load()?;
    let session = Session::open_to_plan(config, registry)?;
    let planner = Planner::new(session, gpus);
    if planner.session.has_uneven_devices() {
        return cut::run(&planner, arguments, start);
    }
    let batches = arguments.batches(&planner)?;
    let largest = planner.largest(planner.options())?;
    let page = arguments
        .html
        .as_deref()
        .map(|path| planner.page(path, arguments.page_batch(&planner.session.config)));
    let page = page.transpose()?;
    let mut planned = planner.plan(batches, largest, page)?;
    planned.plan_seconds = start.elapsed().as_secs_f64();
    if arguments.json {
        output::print_json(&planned)?;
    } else {
        output::print(&report(&planned))?;
    }
    Ok(Exit::Success)
}

impl PlanArguments {
    /// The configuration, and the GPUs that are planned for. Where their number is given they are the devices; one alone
    /// stands for each of the devices that are configured.
    fn load(&self) -> Result<(Config, Vec<GpuMemory>), CliError> {
        let [devices, limit] = self.device.flags();
        let flags = [devices, self.strategy.flag(), limit];
        let Some(gpus) = self.gpu.as_deref().map(str::parse::<SeveralGpus>).transpose()? else {
            return Ok((self.config.load(&flags)?, Vec::new()));
        };
        let SeveralGpus { mut each, is_counted } = gpus;
        if !is_counted {
            let config = self.config.load(&flags)?;
            let configured = config.device.devices.len();
            if configured == 1 {
                return Ok((config, each));
            }
            each = vec![each[0].clone(); configured];
        }
        let names: Vec<_> = (0..each.len()).map(|index| DeviceName::Cuda(index).to_string()).collect();
        let names = names.join(",");
        let counted = Flag { name: "--gpu", key: "device.devices", value: Some(&names) };
        Ok((self.config.load(&[counted, self.strategy.flag(), limit])?, each))
    }

    /// The batches that are asked for; else some that the model can be trained on, and the config's.
    fn batches(&self, planner: &Planner) -> Result<Vec<PlannedBatch>, CliError> {
        if !self.batch.is_empty() {
            let asked: BTreeSet<usize> = self.batch.iter().map(|batch| *batch as usize).collect();
            let alone = asked.len() == 1;
            let refuse = |batch, error: CliError| match error {
                CliError::Train(error) if !alone => Ok(planner.refused(batch, error.to_string())),
                error => Err(error),
            };
            return asked
                .into_iter()
                .map(|batch| planner.batch(batch).or_else(|error| refuse(batch, error)))
                .collect();
        }
        let own = planner.session.config.train.batch;
        let usual: BTreeSet<usize> = [1, 8, 64, 512, own].into();
        let planned = usual.into_iter().map(|batch| (batch, planner.batch(batch)));
        planned
            .filter(|(batch, planned)| *batch == own || planned.is_ok())
            .map(|(_, planned)| planned)
            .collect()
    }

    fn page_batch(&self, config: &Config) -> usize {
        self.batch.first().map_or(config.train.batch, |batch| *batch as usize)
    }
}

/// What is the same for all batches.
struct Planner {
    session: Session,
    /// The names of GPUs that were named, of all devices.
    names: Vec<String>,
    backend: Backend,
    limit_bytes: Option<Bytes>,
    /// What the limit follows from, where nobody gave one.
    reserve: Option<String>,
}

impl Planner {
    fn new(session: Session, gpus: Vec<GpuMemory>) -> Self {
        let backend = if gpus.is_empty() { backend(&session) } else { Backend::Cuda };
        let devices = session.config.device.devices.iter().enumerate();
        let named = |(index, device): (usize, &DeviceName)| match gpus.get(index) {
            Some(GpuMemory { name: Some(name), .. }) => (*name).to_owned(),
            Some(_) if gpus.len() == 1 => "cuda".to_owned(),
            _ => device.to_string(),
        };
        let names = devices.map(named).collect();
        // Without a limit a plan for the CPU is held against what this machine leaves.
        let default = match (backend, session.config.memory.limit) {
            (Backend::Cpu { .. }, None) => default_limit(&session.config),
            _ => None,
        };
        let session = match (gpus.is_empty(), default) {
            (false, _) => session.with_limits(gpus.iter().map(|gpu| gpu.limit_bytes).collect()),
            (true, Some(default)) => session.with_limits(vec![default.bytes]),
            (true, None) => session,
        };
        let limit_bytes = session.limit_bytes;
        Self { session, names, backend, limit_bytes, reserve: default.map(|limit| limit.reason.to_string()) }
    }

    /// `RTX 4090 with 23.0 GiB`, `ddp over 4 devices with 24.0 GiB each`.
    fn place(&self) -> String {
        let session = &self.session;
        let count = session.config.device.devices.len();
        let limits: Vec<_> = (0..count).filter_map(|device| session.limit_of(device)).collect();
        let (are_alike, each) =
            (limits.windows(2).all(|pair| pair[0] == pair[1]), if count > 1 { " each" } else { "" });
        let with = match limits.first() {
            None => String::new(),
            Some(limit) if are_alike => format!(" with {limit}{each}"),
            Some(_) => format!(" with {}", shown(&limits)),
        };
        let reason = self.reserve.as_ref().map(|reason| format!(" ({reason}, less a reserve)"));
        let reason = reason.unwrap_or_default();
        let rules = if self.backend.is_verified() { "" } else { " · cuda rules unverified" };
        match session.config.device.sharing.name().filter(|_| count > 1) {
            Some(strategy) => format!("{strategy} over {count} devices{with}{reason}{rules}"),
            None => format!("on {}{with}{reason}{rules}", self.names[0]),
        }
    }

    fn options(&self) -> PlanOptions {
        PlanOptions { backend: Some(self.backend), limit_bytes: self.limit_bytes, ..PlanOptions::default() }
    }

    fn timeline(&self, batch: usize) -> Result<Timeline, CliError> {
        let mut timeline = plan(&self.session, PlanOptions { batch: Some(batch), ..self.options() })?;
        timeline.device.clone_from(&self.names[0]);
        Ok(timeline)
    }

    fn batch(&self, batch: usize) -> Result<PlannedBatch, CliError> {
        let start = Instant::now();
        let timeline = self.timeline(batch)?;
        let peak = timeline.peak();
        let planned_peak_bytes = peak.categories.total();
        let (phase, stage) = timeline.place_of(peak.event);
        let planned = Planned {
            planned_peak_bytes,
            fits: self.limit_bytes.map(|limit| fits(planned_peak_bytes, limit, self.backend)),
            categories: peak.categories,
            peak_phase: phase.to_owned(),
            peak_stage: stage.to_owned(),
            plan_seconds: start.elapsed().as_secs_f64(),
        };
        let samples_per_device = self.session.share_of(batch);
        Ok(PlannedBatch { batch, samples_per_device, planned: Some(planned), refused: None })
    }

    fn refused(&self, batch: usize, reason: String) -> PlannedBatch {
        let samples_per_device = self.session.share_of(batch);
        PlannedBatch { batch, samples_per_device, planned: None, refused: Some(reason) }
    }

    /// The largest batch that fits, of at most all there is to train on.
    fn largest(&self, options: PlanOptions) -> Result<Option<LargestBatch>, CliError> {
        let Some(limit_bytes) = self.limit_bytes else { return Ok(None) };
        Ok(largest_batch(&self.session, options, limit_bytes, self.session.source.len(Split::Train))?)
    }

    fn page(&self, path: &Path, batch: usize) -> Result<PathBuf, CliError> {
        let timeline = self.timeline(batch)?;
        output::write_file(path, |file| export::html(&export::Page::new(&timeline), file))?;
        Ok(path.to_owned())
    }

    fn plan(
        &self,
        batches: Vec<PlannedBatch>,
        largest: Option<LargestBatch>,
        page: Option<PathBuf>,
    ) -> Result<Plan, CliError> {
        let (session, batch) = (&self.session, self.session.config.train.batch);
        let micro_batch = session.micro_batch();
        let is_own = |row: &&PlannedBatch| row.batch == batch;
        let own = batches.iter().find(is_own).and_then(|row| row.planned.as_ref());
        let does_not_fit = own.is_some_and(|own| own.fits == Some(false));
        Ok(Plan {
            model: session.architecture.name().to_owned(),
            optimizer: optimizer(&session.config.optimizer.kind),
            policy: session.describe_policy(self.backend, self.limit_bytes),
            device: self.names.join(","),
            strategy: session.config.device.sharing.name(),
            world_size: session.world_size(),
            rules_verified: self.backend.is_verified(),
            margin: self.backend.margin(),
            limit_bytes: self.limit_bytes,
            micro_batch,
            largest_batch: largest.map(|largest| largest.batch),
            largest_batch_planned_peak_bytes: largest.map(|largest| largest.planned_peak_bytes),
            levers: if does_not_fit { self.levers() } else { Vec::new() },
            batches,
            plan_seconds: 0.0,
            shown: Shown {
                sample: session.spec().input.to_string(),
                train_samples: session.source.len(Split::Train),
                place: self.place(),
                batch,
                share: session.share_of(batch),
                largest_share: largest.map(|largest| session.share_of(largest.batch)),
                page,
            },
        })
    }

    /// What makes the config's own batch fit.
    fn levers(&self) -> Vec<Advice> {
        let Some(limit) = self.limit_bytes else { return Vec::new() };
        // How large another batch may be is told on a line of its own.
        let keeps_batch = |advice: &Advice| advice.settings.iter().all(|(key, _)| key != "train.batch");
        advise(&self.session, limit, self.backend).levers.into_iter().filter(keeps_batch).collect()
    }
}

/// `24.0 GiB, 24.0 GiB and 16.0 GiB`.
fn shown(limits: &[Bytes]) -> String {
    let limits: Vec<_> = limits.iter().map(Bytes::to_string).collect();
    match limits.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => limits.concat(),
    }
}

/// `sgd momentum 0.9`, `adamw`: what decides how much state there is.
fn optimizer(kind: &OptimizerKind) -> String {
    match kind {
        OptimizerKind::Sgd { momentum, .. } if *momentum > 0.0 => format!("sgd momentum {momentum}"),
        other => other.name().to_owned(),
    }
}

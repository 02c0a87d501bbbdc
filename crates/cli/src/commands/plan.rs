use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Instant,
};

use clap::Args;
use oomph_config::OptimizerKind;
use oomph_core::{Bytes, Split};
use oomph_memory::{Split as Categories, Timeline, export, gpu::GpuMemory};
use oomph_trainer::{
    Advice, Backend, LargestBatch, PlanOptions, Registry, Session, advise, backend, fits, largest_batch,
    plan, plan_cut,
};
use serde::Serialize;

use crate::{
    configuration::{ConfigArguments, DeviceArguments, StrategyArguments},
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
  oomph plan --config synthetic-resnet50 --gpu \"RTX 4090\" --html plan.html")]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    config: ConfigArguments,
    /// Batches to plan [default: 1, 8, 64, 512 and that of the config]
    // A thousand million samples keep every product within 64 bits.
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    batch: Vec<u32>,
    /// Plan for a GPU of this memory, such as `8GiB`, or of this name, such as `RTX 4090`
    #[arg(long, value_name = "SIZE|NAME", conflicts_with_all = ["memory_limit", "devices"])]
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
    rules_verified: bool,
    margin: f64,
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
    reserve: Option<String>,
    batch: usize,
    page: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct PlannedBatch {
    batch: usize,
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
    let [devices, limit] = arguments.device.flags();
    let config = arguments.config.load(&[devices, arguments.strategy.flag(), limit])?;
    let gpu = arguments.gpu.as_deref().map(GpuMemory::parse).transpose()?;
    let session = Session::open_to_plan(config, registry)?;
    let planner = Planner::new(&session, gpu);
    if let Some(cut) = plan_cut(&session, arguments.cut_options(&planner))? {
        return cut::show(&planner, &cut, (start, arguments.json));
    }
    let batches = arguments.batches(&planner)?;
    let largest = planner.largest(planner.options())?;
    let page =
        arguments.html.as_deref().map(|path| planner.page(path, arguments.page_batch(&session.config)));
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
    /// The batches that are asked for; else some that the model can be trained on, and the config's.
    fn batches(&self, planner: &Planner<'_>) -> Result<Vec<PlannedBatch>, CliError> {
        if !self.batch.is_empty() {
            let asked: BTreeSet<usize> = self.batch.iter().map(|batch| *batch as usize).collect();
            let alone = asked.len() == 1;
            let refuse = |batch, error: CliError| match error {
                CliError::Train(error) if !alone => {
                    Ok(PlannedBatch { batch, planned: None, refused: Some(error.to_string()) })
                }
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

    /// For the first batch that is asked for, or the config's.
    fn cut_options(&self, planner: &Planner<'_>) -> PlanOptions {
        PlanOptions { batch: self.batch.first().map(|batch| *batch as usize), ..planner.options() }
    }

    fn page_batch(&self, config: &oomph_config::Config) -> usize {
        self.batch.first().map_or(config.train.batch, |batch| *batch as usize)
    }
}

/// What is the same for all batches.
struct Planner<'a> {
    session: &'a Session,
    gpu: Option<&'static str>,
    backend: Backend,
    limit_bytes: Option<Bytes>,
    reserve: Option<String>,
}

impl<'a> Planner<'a> {
    fn new(session: &'a Session, gpu: Option<GpuMemory>) -> Self {
        let backend = if gpu.is_some() { Backend::Cuda } else { backend(session) };
        // Without a limit a plan for the CPU is held against what this machine leaves.
        let machine = || match backend {
            Backend::Cpu { .. } => oomph_memory::default_limit(),
            Backend::Cuda => None,
        };
        let given = gpu.as_ref().map(|gpu| gpu.limit_bytes).or(session.config.memory.limit);
        let default = if given.is_none() { machine() } else { None };
        Self {
            session,
            gpu: gpu.and_then(|gpu| gpu.name),
            backend,
            limit_bytes: given.or_else(|| default.map(|limit| limit.bytes)),
            reserve: default.map(|limit| limit.reason.to_string()),
        }
    }

    fn options(&self) -> PlanOptions {
        PlanOptions { backend: Some(self.backend), limit_bytes: self.limit_bytes, ..PlanOptions::default() }
    }

    fn timeline(&self, batch: usize) -> Result<Timeline, CliError> {
        let mut timeline = plan(self.session, PlanOptions { batch: Some(batch), ..self.options() })?;
        if let Some(gpu) = self.gpu {
            gpu.clone_into(&mut timeline.device);
        }
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
        Ok(PlannedBatch { batch, planned: Some(planned), refused: None })
    }

    /// The largest batch that fits, of at most all there is to train on.
    fn largest(&self, options: PlanOptions) -> Result<Option<LargestBatch>, CliError> {
        let Some(limit_bytes) = self.limit_bytes else { return Ok(None) };
        Ok(largest_batch(self.session, options, limit_bytes, self.session.source.len(Split::Train))?)
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
        let (session, batch) = (self.session, self.session.config.train.batch);
        let micro_batch = session.micro_batch();
        let is_own = |row: &&PlannedBatch| row.batch == batch;
        let own = batches.iter().find(is_own).and_then(|row| row.planned.as_ref());
        let levers = match self.limit_bytes {
            Some(limit) if own.is_some_and(|own| own.fits == Some(false)) => {
                // How large another batch may be is told on a line of its own.
                let keeps_batch =
                    |advice: &Advice| advice.settings.iter().all(|(key, _)| key != "train.batch");
                advise(session, limit, self.backend).levers.into_iter().filter(keeps_batch).collect()
            }
            _ => Vec::new(),
        };
        Ok(Plan {
            model: session.architecture.name().to_owned(),
            optimizer: optimizer(&session.config.optimizer.kind),
            policy: session.describe_policy(self.backend, self.limit_bytes),
            device: match (self.gpu, self.backend) {
                (Some(gpu), _) => gpu.to_owned(),
                (None, Backend::Cpu { .. }) => "cpu".to_owned(),
                (None, Backend::Cuda) => "cuda".to_owned(),
            },
            rules_verified: self.backend.is_verified(),
            margin: self.backend.margin(),
            limit_bytes: self.limit_bytes,
            micro_batch,
            largest_batch: largest.map(|largest| largest.batch),
            largest_batch_planned_peak_bytes: largest.map(|largest| largest.planned_peak_bytes),
            levers,
            batches,
            plan_seconds: 0.0,
            shown: Shown {
                sample: session.spec().input.to_string(),
                train_samples: session.source.len(Split::Train),
                reserve: self.reserve.clone(),
                batch,
                page,
            },
        })
    }
}

/// `sgd momentum 0.9`, `adamw`: what decides how much state there is.
fn optimizer(kind: &OptimizerKind) -> String {
    match kind {
        OptimizerKind::Sgd { momentum, .. } if *momentum > 0.0 => format!("sgd momentum {momentum}"),
        other => other.name().to_owned(),
    }
}

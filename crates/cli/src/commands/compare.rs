//! `oomph compare`: the same training in variants, planned and measured, each in a process of its own.

mod axes;
mod optimizer;
mod report;
mod row;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::{ArgGroup, Args, ValueEnum};
use oomph_config::{Config, DeviceName};
use oomph_memory::export;
use oomph_trainer::{MeasureOptions, Registry, Session, check_alone, plan_step};

use self::{
    axes::{AXES, Combination, combinations},
    optimizer::Chosen,
    report::{Report, page},
    row::Row,
};
use crate::{
    configuration::{ConfigArguments, DeviceArguments, Flag},
    error::CliError,
    exit::Exit,
    notices::Notices,
    output,
    probe::{Planned, Prober, Stopped, Work},
    progress::{ProbeBar, Style},
};

/// Steps behind the warm-up, so that their median means something.
const LEAST_STEPS: i64 = MeasureOptions::WARMUP as i64 + 1;

#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("what").args(["optimizers", "batches", "micro_batches", "precisions", "recompute", "lean"]).required(true).multiple(true)),
    after_help = "\
Each combination trains in a process of its own: the same data in the same order, the same seed. An
optimizer that the config does not name has its own defaults, its learning rate among them;
`--set optimizer.lr=…` holds for all. What runs out of memory becomes a row that says so.

Examples:
  oomph compare --optimizers sgd,momentum,adam,adamw
  oomph compare --optimizers adam+lr=0.001,adam+lr=0.01 --steps 100 --sort loss
  oomph compare --config lstm --optimizers adamw,adan --batches 8,32,128 --html compare.html
  oomph compare --config synthetic-resnet50 --batches 32,256,2048 --plan-only
  oomph compare --precisions fp32,bf16 --recompute none,stages,layer1+layer2 --lean true,false"
)]
pub(crate) struct CompareArguments {
    /// Optimizers: those of `optimizer.name`, and `momentum` for sgd with a momentum of 0.9;
    /// `adam+lr=0.01` sets a key of one
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    optimizers: Vec<Chosen>,
    /// Batches (`train.batch`)
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    batches: Vec<u32>,
    /// Micro-batches (`memory.micro_batch`)
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    micro_batches: Vec<u32>,
    /// Precisions (`memory.precision`): fp32, bf16, fp16
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    precisions: Vec<String>,
    /// What is computed again in backward (`memory.recompute`): none, ops, stages, auto, or stages by
    /// name as in `layer1+layer2`
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    recompute: Vec<String>,
    /// Whether layers keep less than Burn's do (`memory.lean`): true, false
    #[arg(long, value_name = "BOOL,…", value_delimiter = ',')]
    lean: Vec<bool>,
    /// Optimizer steps of each; the first two are not timed
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(LEAST_STEPS..))]
    steps: u32,
    /// Only plan: nothing is trained or allocated, whatever the batch
    #[arg(long, conflicts_with = "steps")]
    plan_only: bool,
    /// The order of the rows: as asked for, or by planned peak, time of a step or loss
    #[arg(long, value_name = "BY", value_enum, default_value_t = Sort::Asked)]
    sort: Sort,
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten)]
    device: DeviceArguments,
    /// Also write a page with bars to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the rows go by, the least first. Those that do not have it come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    Asked,
    Peak,
    Time,
    Loss,
}

pub(crate) fn run(arguments: &CompareArguments, registry: &Registry) -> Result<Exit, CliError> {
    let base = arguments.load(&[])?;
    check_alone(&base)?;
    registry.read(&base)?;
    arguments.check_optimizers(&base)?;
    arguments.check_page()?;
    let combinations = combinations(arguments, &base, registry);
    let (mut rows, stopped) = if arguments.plan_only {
        (combinations.into_iter().map(|combination| planned(combination, registry)).collect(), None)
    } else {
        arguments.measured(combinations)?
    };
    arguments.sort.apply(&mut rows);
    let report = Report::new(arguments, &base, rows);
    if let Some(path) = &arguments.html {
        write_page(&report, path)?;
    }
    if arguments.json {
        output::print_json(&report.json())?;
    } else if !report.rows.is_empty() {
        output::print(&report.text(arguments.html.as_deref()))?;
    }
    let all_failed = report.rows.iter().all(|row| row.error.is_some());
    Ok(stopped.unwrap_or(if all_failed { Exit::Failure } else { Exit::Success }))
}

impl CompareArguments {
    /// The configuration with more flags, each with its key and value.
    fn load(&self, more: &[(&'static str, String, String)]) -> Result<Config, CliError> {
        let steps = self.steps.to_string();
        let mut flags = self.device.flags().to_vec();
        flags.push(Flag {
            name: "--steps",
            key: "train.steps",
            value: Some(steps.as_str()).filter(|_| !self.plan_only),
        });
        flags.extend(more.iter().map(|&(name, ref key, ref value)| Flag { name, key, value: Some(value) }));
        self.config.load(&flags)
    }

    /// A name that is misspelt shall not become a row after minutes of other rows.
    fn check_optimizers(&self, base: &Config) -> Result<(), CliError> {
        self.optimizers.iter().try_for_each(|chosen| {
            let settings = chosen.settings(base).into_iter();
            let flags: Vec<_> = settings.map(|(key, value)| ("--optimizers", key, value)).collect();
            self.load(&flags).map(drop).map_err(|error| chosen.explain(error))
        })
    }

    /// Nor shall a page that cannot be written.
    fn check_page(&self) -> Result<(), CliError> {
        let Some(path) = &self.html else { return Ok(()) };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let found = match folder {
            _ if path.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Some(folder) => fs::metadata(folder).map(drop),
            None => Ok(()),
        };
        found.map_err(|source| CliError::File { path: path.clone(), source })
    }

    /// The rows of all combinations, or of those until a signal came.
    fn measured(&self, combinations: Vec<Combination>) -> Result<(Vec<Row>, Option<Exit>), CliError> {
        let prober = Prober::start()?;
        let work = Work::Measure { steps: self.steps as usize };
        let progress = ProbeBar::new(Style::choose(self.json, false), Some(combinations.len()));
        let mut rows = Vec::with_capacity(combinations.len());
        for combination in combinations {
            let Combination { values, config } = combination;
            let row = match config {
                Err(error) => Row::failed(values, &error),
                Ok(config) => {
                    progress.start(&self.label(&values), rows.len(), self.steps as usize);
                    let probed = prober.probe(&config, work.clone(), &mut |step| progress.step(step));
                    match probed {
                        Ok(probed) => Row::measured(values, &config, probed),
                        Err(Stopped(exit)) => return Ok((rows, Some(exit))),
                    }
                }
            };
            self.tell(&row, progress.notices());
            rows.push(row);
        }
        Ok((rows, None))
    }

    /// What a row is called: the values that are compared.
    fn label(&self, values: &axes::Values) -> String {
        let varied = AXES.iter().zip(values).filter(|(axis, _)| axis.is_varied(self));
        varied.map(|(axis, value)| axis.label(value)).collect::<Vec<_>>().join(" · ")
    }

    fn tell(&self, row: &Row, notices: &Notices) {
        let Some(error) = &row.error else { return };
        notices.warning(format!("{}: {error}", self.label(&row.values)));
        if let Some(hint) = &row.hint {
            notices.line(format!("         {hint}"));
        }
    }
}

/// A row without a measurement.
fn planned(Combination { values, config }: Combination, registry: &Registry) -> Row {
    let plan = |config: Config| -> Result<Row, CliError> {
        // Another device need not be here to be planned for.
        let is_cpu = config.device.devices[0] == DeviceName::Cpu;
        let open = if is_cpu { Session::open } else { Session::open_to_plan };
        let session = open(config, registry)?;
        let planned = Planned::new(&session, &plan_step(&session)?);
        Ok(Row::planned(values.clone(), &session, planned))
    };
    config.and_then(plan).unwrap_or_else(|error| Row::failed(values, &error))
}

fn write_page(report: &Report, path: &Path) -> Result<(), CliError> {
    output::write_file(path, |file| export::chart(&page(report), file))
}

impl Sort {
    fn apply(self, rows: &mut [Row]) {
        let key = |row: &Row| match self {
            Self::Asked => None,
            Self::Peak => row.planned.as_ref().map(|planned| planned.peak_bytes().get() as f64),
            Self::Time => row.measured.map(|measured| measured.step_seconds),
            Self::Loss => row.measured.and_then(|measured| measured.loss_last),
        };
        if self != Self::Asked {
            // Stable: equal ones stay as asked.
            rows.sort_by(|one, other| {
                let [one, other] = [one, other].map(|row| key(row).unwrap_or(f64::INFINITY));
                one.total_cmp(&other)
            });
        }
    }
}

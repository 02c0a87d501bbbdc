//! `oomph find-batch`: the largest batch that fits, planned, tried, and tried one further.

mod plans;
mod report;
mod share;
mod subject;

use std::{cmp::Ordering, path::PathBuf};

use clap::{Args, value_parser};
use oomph_config::{Config, ConfigFile, DeviceName, Value};
use oomph_core::{Bytes, Split};
use oomph_trainer::{
    BatchSearch, Registry, SearchError, Session, SessionError, Tried, backend, default_limit, find_device,
    free_bytes,
};

use self::{
    plans::Plans,
    report::{Report, Row, Verdict},
    share::Share,
    subject::Subject,
};
use crate::{
    configuration::{ConfigArguments, DeviceArguments, Flag, StrategyArguments},
    error::CliError,
    exit::Exit,
    failure,
    notices::Notices,
    output,
    probe::{Prober, Stopped, Work},
    progress::{ProbeBar, Style},
};

/// Batches that are tried at most.
const MOST_TRIES: usize = 6;
/// Steps of a try. The first two make the optimizer's state and what stays.
const STEPS: usize = 4;

#[derive(Args, Debug)]
#[command(after_help = "\
It starts from the plan, tries batches in processes of their own, each with the first steps, the last
batch of an epoch, an evaluation and the reading of a checkpoint, and ends with one that fits below one
that does not. Nothing is saved, and no run directory touched.

Where not even the smallest one fits, the exit code is 75 and the report says what would make it fit;
where it fits by the plan and fails all the same, it is 1 and says where.

Examples:
  oomph find-batch --max 512
  oomph find-batch --config my.toml --memory-limit 2GiB --write
  oomph find-batch --config synthetic-resnet50 --devices cuda:0 --margin 5% --multiple-of 8
  oomph find-batch --effective-batch 256 --memory-limit 1GiB
  oomph find-batch --devices cuda:0,cuda:1 --strategy pipeline")]
pub(crate) struct FindBatchArguments {
    #[command(flatten)]
    config: ConfigArguments,
    /// The largest batch to look at; it is tried before it is the answer
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = value_parser!(u32).range(1..=1_000_000_000))]
    max: u32,
    /// The smallest batch to look at
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=1_000_000_000))]
    min: u32,
    /// Only multiples of it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=1_000_000_000))]
    multiple_of: u32,
    #[command(flatten)]
    device: DeviceArguments,
    #[command(flatten)]
    strategy: StrategyArguments,
    /// What is to be left free, as a share of the limit
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    margin: Share,
    /// Keep this batch, and find the micro-batch with which it fits
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1_000_000_000))]
    effective_batch: Option<u32>,
    /// Write what was found into the config file, whose comments stay
    #[arg(long)]
    write: bool,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &FindBatchArguments, registry: &Registry) -> Result<Exit, CliError> {
    let session = Session::open_to_plan(arguments.load()?, registry)?;
    for device in &session.config.device.devices {
        find_device(*device).map_err(SessionError::from)?;
    }
    let file = arguments.write.then(|| arguments.config.file()).transpose()?;
    if let Some(file) = &file {
        // It shall not come out after minutes that nothing can be written.
        file.check_writable()?;
    }
    let mut finder = Finder::new(arguments, &session)?;
    let stopped = finder.search()?;
    let mut report = finder.report();
    report.interrupted = stopped.is_some();
    let written = match (&file, report.values()) {
        (Some(file), Some(values)) if stopped.is_none() => write(file, &values, &session.config).map(Some),
        _ => Ok(None),
    };
    report.written = written.as_ref().ok().cloned().flatten();
    if arguments.json {
        output::print_json(&report)?;
    } else if !report.probes.is_empty() {
        output::print(&report.text())?;
    }
    if let Some(warning) = report.warning() {
        Notices::default().warning(warning);
    }
    match (stopped, written.err().or(finder.failure)) {
        (Some(exit), _) => Ok(exit),
        // The object on standard output has it.
        (None, Some(error)) if arguments.json => {
            failure::report(&error, error.hint(), error.out_of_memory(), false);
            Ok(error.exit())
        }
        (None, Some(error)) => Err(error),
        (None, None) => Ok(Exit::Success),
    }
}

/// Writes what was found into the file as it is now: somebody may have changed it meanwhile. A micro-batch that is the
/// whole batch is not worth a line, unless there is one already.
fn write(file: &ConfigFile, values: &[(&'static str, Value)], config: &Config) -> Result<PathBuf, CliError> {
    let file = file.path().map_or_else(|| Ok(file.clone()), ConfigFile::read)?;
    let batch = values.first().map(|(_, batch)| batch.clone());
    let is_worth = |(key, value): &&(&'static str, Value)| {
        *key == "train.batch" || config.memory.micro_batch.is_some() || Some(value) != batch.as_ref()
    };
    Ok(file.write_values(&values.iter().filter(is_worth).cloned().collect::<Vec<_>>())?)
}

impl FindBatchArguments {
    fn load(&self) -> Result<Config, CliError> {
        let batch = self.effective_batch.map(|batch| batch.to_string());
        let batch = Flag { name: "--effective-batch", key: "train.batch", value: batch.as_deref() };
        let [devices, limit] = self.device.flags();
        self.config.load(&[devices, self.strategy.flag(), limit, batch])
    }
}

/// A search and what it has come to.
struct Finder<'a> {
    session: &'a Session,
    subject: Subject,
    search: BatchSearch,
    plans: Plans<'a>,
    /// What may be used, the margin left out.
    limit_bytes: Option<Bytes>,
    /// Whether plans on this device were held against measurements.
    is_verified: bool,
    rows: Vec<Row>,
    style: Style,
    /// Why nothing was found.
    failure: Option<CliError>,
    /// The smallest one that there is a training with: its failure is explained.
    least: usize,
    multiple_of: usize,
    /// The largest one.
    most: usize,
    /// Why no larger ones are looked at.
    capped: Option<String>,
}

impl<'a> Finder<'a> {
    fn new(arguments: &FindBatchArguments, session: &'a Session) -> Result<Self, CliError> {
        let subject = match arguments.effective_batch {
            Some(_) => Subject::MicroBatch,
            None => Subject::Batch,
        };
        let limit_bytes = limit(&session.config).map(|limit| arguments.margin.less(limit).max(Bytes::new(1)));
        let samples = session.source.len(Split::Train);
        let there_are = subject.most(session, samples);
        let asked = arguments.max as usize;
        // Larger batches would only repeat the largest there is, and prove nothing.
        let capped = match asked.cmp(&there_are) {
            Ordering::Greater => Some(subject.capped(there_are)),
            Ordering::Less => Some(format!("no larger one than `--max {asked}` was looked at")),
            Ordering::Equal => None,
        };
        let most = asked.min(there_are);
        let least = subject.least(session).max(arguments.min as usize);
        let multiple_of = arguments.multiple_of as usize;
        let search = BatchSearch::new(least, most, multiple_of, limit_bytes, MOST_TRIES)?;
        let has_cpu = session.config.device.devices.contains(&DeviceName::Cpu);
        let mut plans = Plans::new(session, subject, limit_bytes.filter(|_| has_cpu));
        let first = least.next_multiple_of(multiple_of);
        let least = plans.least_allowed((first..=most).step_by(multiple_of)).unwrap_or(first);
        Ok(Self {
            session,
            subject,
            search,
            limit_bytes,
            is_verified: backend(session).is_verified(),
            rows: Vec::new(),
            style: Style::choose(arguments.json, false),
            failure: None,
            least,
            multiple_of,
            plans,
            most: most / multiple_of * multiple_of,
            capped,
        })
    }

    /// Tries one batch after the other; the signal that ended it, if one did.
    fn search(&mut self) -> Result<Option<Exit>, CliError> {
        let prober = Prober::start()?;
        let bar = ProbeBar::new(self.style, None);
        while let Some(batch) = self.search.next(&mut self.plans) {
            if let Err(Stopped(exit)) = self.try_one(batch, &prober, &bar)? {
                return Ok(Some(exit));
            }
        }
        let Some(found) = self.search.found().largest else {
            self.failure = Some(self.nothing_fits());
            return Ok(None);
        };
        // Of as many micro-batches those that are alike need less, and are nearer to the whole batch.
        let even = self.even(found);
        if let Some(even) = even.filter(|even| self.rows.iter().all(|row| row.batch != *even))
            && let Err(Stopped(exit)) = self.try_one(even, &prober, &bar)?
        {
            return Ok(Some(exit));
        }
        Ok(None)
    }

    fn try_one(
        &mut self,
        batch: usize,
        prober: &Prober,
        bar: &ProbeBar,
    ) -> Result<Result<(), Stopped>, CliError> {
        let config = self.plans.session(batch)?.config;
        let planned_peak_bytes = self.plans.peak_bytes(batch);
        let is_above = self.limit_bytes.zip(planned_peak_bytes).is_some_and(|(limit, peak)| peak > limit);
        // What is to be explained is tried; so is what a plan is not known to be right about.
        if is_above && self.is_verified && batch != self.least {
            self.search.tell(batch, Tried::TooLarge);
            self.rows.push(Row::planned(batch, planned_peak_bytes));
            return Ok(Ok(()));
        }
        let explained = batch == self.least && self.search.found().largest.is_none();
        let report = explained.then(|| output::report_directory(self.session.config.name()));
        bar.start(&self.subject.label(batch), self.rows.len(), STEPS);
        let work = Work::Rehearse { steps: STEPS, report: report.map(absolute) };
        let probed = match prober.probe(&config, work, &mut |step| bar.step(step)) {
            Ok(probed) => probed,
            Err(stopped) => return Ok(Err(stopped)),
        };
        let row = Row::new(batch, planned_peak_bytes, probed, self.limit_bytes);
        match (row.verdict, &row.failure) {
            (Verdict::Fits, _) => {
                // Where the plan is the bound, less than planned is no reason to look above it.
                let least = if self.is_verified { 1.0 } else { 0.0 };
                self.search.tell(batch, Tried::Fits { of_planned: row.of_planned().max(least) });
            }
            (Verdict::Failed, Some(source)) => {
                return Err(CliError::Tried { what: self.subject.label(batch), source: source.clone() });
            }
            (Verdict::DoesNotFit | Verdict::Failed, _) => self.search.tell(batch, Tried::TooLarge),
        }
        self.rows.push(row);
        Ok(Ok(()))
    }

    /// What is said where not even the smallest one fits: whether that is a limit or a bug.
    fn nothing_fits(&self) -> CliError {
        let what = self.subject.label(self.least);
        let row = self.rows.iter().find(|row| row.batch == self.least);
        let Some((row, source)) = row.and_then(|row| Some((row.planned_peak_bytes, row.failure.clone()?)))
        else {
            // Nothing was tried, since there is no training with any.
            return match self.plans.check(self.least) {
                Err(error) => error.into(),
                Ok(()) => {
                    SearchError { least: self.least, most: self.most, multiple_of: self.multiple_of }.into()
                }
            };
        };
        let (limit, planned) = (self.limit_bytes.unwrap_or_default(), row.unwrap_or_default());
        let is_planned_to_fit = self.limit_bytes.is_some() && self.plans.fits(planned, limit);
        if is_planned_to_fit {
            CliError::FailsAgainstThePlan { what, planned_peak_bytes: planned, limit_bytes: limit, source }
        } else {
            CliError::NothingFits { what, source }
        }
    }

    /// The smallest micro-batch with which there are no more of them than with one that was found.
    fn even(&self, found: usize) -> Option<usize> {
        let batch = self.session.share_of(self.session.largest_train_batch());
        let even = batch.div_ceil(batch.div_ceil(found)).next_multiple_of(self.multiple_of);
        (self.subject == Subject::MicroBatch && (self.least..found).contains(&even)).then_some(even)
    }

    fn report(&self) -> Report {
        let found = self.search.found();
        let even = found.largest.and_then(|found| self.even(found));
        let fits =
            |batch: &usize| self.rows.iter().any(|row| row.batch == *batch && row.verdict == Verdict::Fits);
        let chosen = even.filter(fits).or(found.largest);
        // It matters where that is what was found.
        let capped = self.capped.clone().filter(|_| found.largest == Some(self.most));
        Report::new(self.session, self.subject, (found, chosen), self.limit_bytes, &self.rows, capped)
    }
}

/// What each device may use: of several the least that any of them may.
fn limit(config: &Config) -> Option<Bytes> {
    let of = |device: &DeviceName| match device {
        DeviceName::Cpu => config.memory.limit.or_else(|| Some(default_limit(config)?.bytes)),
        DeviceName::Cuda(_) => free_bytes(*device),
    };
    config.device.devices.iter().map(of).collect::<Option<Vec<_>>>()?.into_iter().min()
}

/// A child may be elsewhere.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

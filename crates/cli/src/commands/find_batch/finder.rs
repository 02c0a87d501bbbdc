use std::cmp::Ordering;

use oomph_advice::{BatchSearch, Planned, SearchError, Tried};
use oomph_config::{Config, DeviceName};
use oomph_core::{Bytes, Split};
use oomph_engine::session::{backend, largest_train_batch};
use oomph_trainer::{Session, limit_of};

use super::{
    arguments::{FindBatchArguments, Share},
    plans::Plans,
    report::Report,
    row::Row,
    subject::Subject,
};
use crate::{
    error::CliError,
    exit::Exit,
    output,
    probe::{Prober, Stopped, Work},
    progress::{ProbeBar, Style},
    verdict::Verdict,
};

/// The maximum number of tries.
const MOST_TRIES: usize = 6;
/// Steps of a try. The first two allocate the optimizer state and other lasting memory.
const STEPS: usize = 4;

/// A search for the largest batch or micro-batch, with its state.
pub(super) struct Finder<'a> {
    session: &'a Session,
    subject: Subject,
    search: BatchSearch,
    plans: Plans<'a>,
    /// The memory limit without the margin.
    limit_bytes: Option<Bytes>,
    margin: Share,
    /// Whether plans for this device were verified by measurements.
    is_verified: bool,
    rows: Vec<Row>,
    style: Style,
    /// Why no batch was found.
    pub(super) failure: Option<CliError>,
    /// The smallest size that can be trained. Its failure is explained.
    least: usize,
    multiple_of: usize,
    /// The largest size of the search.
    most: usize,
    /// Why the search tries no larger sizes.
    capped: Option<String>,
}

impl<'a> Finder<'a> {
    pub(super) fn new(arguments: &FindBatchArguments, session: &'a Session) -> Result<Self, CliError> {
        let subject = match arguments.effective_batch {
            Some(_) => Subject::MicroBatch,
            None => Subject::Batch,
        };
        let limit_bytes = limit(&session.config).map(|limit| arguments.margin.less(limit).max(Bytes::new(1)));
        let samples = session.source.len(Split::Train);
        let largest = subject.most(session, samples);
        let max = arguments.max as usize;
        // A batch above the number of samples would only repeat the largest batch.
        let capped = match max.cmp(&largest) {
            Ordering::Greater => Some(subject.capped(largest)),
            Ordering::Less => Some(format!("the search ended at `--max {max}`")),
            Ordering::Equal => None,
        };
        let most = max.min(largest);
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
            margin: arguments.margin,
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

    /// Tries one size after the other. Returns the exit code of the signal that ended the search, if one did.
    pub(super) fn search(&mut self) -> Result<Option<Exit>, CliError> {
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
        // Micro-batches of equal size need less memory than the same number of unequal ones.
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
        let planned_peak_bytes = self.plans.peak(batch);
        let is_above = self.limit_bytes.zip(planned_peak_bytes).is_some_and(|(limit, peak)| peak > limit);
        // The smallest size is always tried, to explain its failure, and so is any size with an unverified plan.
        if is_above && self.is_verified && batch != self.least {
            self.search.tell(batch, Tried::TooLarge);
            self.rows.push(Row::planned(batch, planned_peak_bytes));
            return Ok(Ok(()));
        }
        let explained = batch == self.least && self.search.found().largest.is_none();
        let report = explained.then(|| output::report_directory(self.session.config.name()));
        bar.start(&self.subject.label(batch), self.rows.len(), STEPS);
        // A child may have another working directory.
        let report = report.map(|path| std::path::absolute(&path).unwrap_or(path));
        let work = Work::Rehearse { steps: STEPS, report };
        let probed = match prober.probe(&config, work, &mut |step| bar.step(step)) {
            Ok(probed) => probed,
            Err(stopped) => return Ok(Err(stopped)),
        };
        self.correct_limit(probed.planned.as_ref().and_then(|planned| planned.limit_bytes));
        let row = Row::new(batch, planned_peak_bytes, probed, self.limit_bytes);
        match (row.verdict, &row.failure) {
            (Verdict::Fits, _) => {
                // A lower measurement is no reason to search above the plan: on the CPU the plan is an upper bound, and a
                // GPU's peak lies between the readings of its pools.
                self.search.tell(batch, Tried::Fits { of_planned: row.of_planned().max(1.0) });
            }
            (Verdict::Failed, Some(source)) => {
                return Err(CliError::TryFailed { what: self.subject.label(batch), source: source.clone() });
            }
            (Verdict::DoesNotFit | Verdict::Failed, _) => self.search.tell(batch, Tried::TooLarge),
        }
        self.rows.push(row);
        Ok(Ok(()))
    }

    /// A child has a context on the GPU, which takes memory that was free before.
    fn correct_limit(&mut self, of_child: Option<Bytes>) {
        let is_gpu = |device: &DeviceName| matches!(device, DeviceName::Cuda(_));
        let Some(limit) = of_child.filter(|_| self.session.config.device.devices.iter().all(is_gpu)) else {
            return;
        };
        let limit = self.margin.less(limit).max(Bytes::new(1));
        self.limit_bytes = Some(limit);
        self.search.set_limit(limit);
    }

    /// The error if not even the smallest size fits: the limit is too low, or the plan was.
    fn nothing_fits(&self) -> CliError {
        let what = self.subject.label(self.least);
        let row = self.rows.iter().find(|row| row.batch == self.least);
        let Some((planned, source)) =
            row.and_then(|row| Some((row.planned_peak_bytes, row.failure.clone()?)))
        else {
            // No size was tried, since none can be trained.
            return match self.plans.check(self.least) {
                Err(error) => error.into(),
                Ok(()) => {
                    SearchError { least: self.least, most: self.most, multiple_of: self.multiple_of }.into()
                }
            };
        };
        let (limit, planned) = (self.limit_bytes.unwrap_or_default(), planned.unwrap_or_default());
        let is_planned_to_fit = self.limit_bytes.is_some() && self.plans.fits(planned, limit);
        if is_planned_to_fit {
            CliError::PlanTooLow { what, planned_peak_bytes: planned, limit_bytes: limit, source }
        } else {
            CliError::NothingFits { what, source }
        }
    }

    /// The smallest micro-batch that needs no more micro-batches than `found` does.
    fn even(&self, found: usize) -> Option<usize> {
        let batch = self.session.share_of(largest_train_batch(self.session));
        let even = batch.div_ceil(batch.div_ceil(found)).next_multiple_of(self.multiple_of);
        (self.subject == Subject::MicroBatch && (self.least..found).contains(&even)).then_some(even)
    }

    pub(super) fn report(&self) -> Report {
        let found = self.search.found();
        let even = found.largest.and_then(|found| self.even(found));
        let fits =
            |batch: &usize| self.rows.iter().any(|row| row.batch == *batch && row.verdict == Verdict::Fits);
        let chosen = even.filter(fits).or(found.largest);
        // The cap matters only if the largest size fits.
        let capped = self.capped.clone().filter(|_| found.largest == Some(self.most));
        let mut report = Report::new(self.session, self.subject, self.rows.clone(), chosen);
        report.is_proven = found.is_proven;
        report.limit_bytes = self.limit_bytes;
        report.capped = capped;
        report
    }
}

/// The memory limit of each device; the smallest one of several.
fn limit(config: &Config) -> Option<Bytes> {
    let limits = config.device.devices.iter().map(|device| limit_of(*device, config));
    limits.collect::<Option<Vec<_>>>()?.into_iter().min()
}

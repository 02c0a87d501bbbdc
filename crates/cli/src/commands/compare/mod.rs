//! `oomph compare`: variants of a training, planned and measured, each in its own process.

mod arguments;
mod axes;
mod optimizer;
mod report;
mod row;

use oomph_config::{Config, DeviceName};
use oomph_core::printable;
use oomph_timeline::export;
use oomph_trainer::{Registry, measure::plan_step, open, open_to_plan};

pub(crate) use self::arguments::CompareArguments;
use self::{
    arguments::Sort,
    axes::{Combination, combinations, label},
    report::{Report, page},
    row::Row,
};
use crate::{
    error::CliError,
    exit::Exit,
    notices::Notices,
    output,
    probe::{Measured, Planned, Prober, Stopped, Work},
    progress::{ProbeBar, Style},
};

pub(crate) fn run(arguments: &CompareArguments, registry: &Registry) -> Result<Exit, CliError> {
    let base = arguments.load(&[])?;
    registry.read(&base)?;
    arguments.check_optimizers(&base)?;
    arguments.overwrite.check(&arguments.html)?;
    let combinations = combinations(arguments, &base, registry);
    let (mut rows, stopped) = if arguments.plan_only {
        let rows: Vec<_> =
            combinations.into_iter().map(|combination| planned(combination, registry)).collect();
        rows.iter().for_each(|row| arguments.warn(row, &Notices::default()));
        (rows, None)
    } else {
        arguments.measured(combinations)?
    };
    arguments.sort.apply(&mut rows);
    let report = Report::new(arguments, &base, rows);
    if let Some(path) = &arguments.html {
        output::write_file(path, arguments.overwrite.existing(), |file| export::chart(&page(&report), file))?;
    }
    if arguments.json {
        output::print_json(&report.json())?;
    } else if !report.rows.is_empty() {
        output::print(&report.text(arguments.html.as_deref()))?;
    }
    let all_failed = report.rows.iter().all(|row| row.error.is_some());
    match stopped {
        Some(exit) => Ok(exit),
        // The JSON object on stdout contains the errors.
        None if all_failed && arguments.json => Ok(Exit::Failure),
        None if all_failed => Err(CliError::NothingCompared { count: report.rows.len() }),
        None => Ok(Exit::Success),
    }
}

impl CompareArguments {
    /// Trains all combinations, or those before a signal.
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
                    progress.start(&label(self, &values), rows.len(), self.steps as usize);
                    let probed = prober.probe(&config, work.clone(), &mut |step| progress.step(step));
                    match probed {
                        Ok(probed) => Row::measured(values, &config, probed),
                        Err(Stopped(exit)) => return Ok((rows, Some(exit))),
                    }
                }
            };
            self.warn(&row, progress.notices());
            rows.push(row);
        }
        Ok((rows, None))
    }

    fn warn(&self, row: &Row, notices: &Notices) {
        let Some(error) = &row.error else { return };
        notices.warning(format!("{}: {error}", label(self, &row.values)));
        if let Some(hint) = &row.hint {
            notices.line(format!("         {}", printable(hint)));
        }
    }
}

/// The row of a combination that is only planned.
fn planned(Combination { values, config }: Combination, registry: &Registry) -> Row {
    let plan = |config: Config| -> Result<Row, CliError> {
        // A plan does not need the device itself.
        let is_cpu = config.device.devices.iter().all(|device| *device == DeviceName::Cpu);
        let session = if is_cpu { open(config, registry)? } else { open_to_plan(config, registry)? };
        let planned = Planned::new(&session, &plan_step(&session)?);
        Ok(Row::planned(values.clone(), &session, planned))
    };
    config.and_then(plan).unwrap_or_else(|error| Row::failed(values, &error))
}

impl Sort {
    fn apply(self, rows: &mut [Row]) {
        let key = |row: &Row| match self {
            Self::Asked => None,
            Self::Peak => row.planned.as_ref().map(|planned| planned.peak_bytes().get() as f64),
            Self::Time => row.measured.as_ref().map(|measured| measured.step_seconds),
            Self::Loss => row.measured.as_ref().and_then(Measured::loss_last),
        };
        // A stable sort: equal rows stay in the given order.
        rows.sort_by(|one, other| {
            let [one, other] = [one, other].map(|row| key(row).unwrap_or(f64::INFINITY));
            one.total_cmp(&other)
        });
    }
}

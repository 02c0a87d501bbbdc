//! `oomph verify-gpu`: small trainings on a GPU, compared with the CPU, with plans and with the driver, in one file.

mod arguments;
mod card;
mod check;
mod device;
mod figures;
mod first_step;
mod memory;
mod numerics;
mod report;
mod row;
mod runner;
mod speed;
mod trainings;

use std::time::Instant;

use oomph_trainer::{Registry, SessionError, device::find_device};

pub(crate) use self::arguments::VerifyGpuArguments;
use self::{check::GpuCheck, figures::CheckError, report::Report, row::CheckRow, runner::Runner};
use crate::{
    error::CliError,
    exit::Exit,
    output,
    probe::Prober,
    progress::{ProbeBar, Style},
};

pub(crate) fn run(arguments: &VerifyGpuArguments, registry: &Registry) -> Result<Exit, CliError> {
    let device = arguments.device();
    find_device(device).map_err(SessionError::from)?;
    arguments.overwrite.check([&arguments.out])?;
    let checks = GpuCheck::list(arguments.quick);
    let style = Style::choose(arguments.json, arguments.quiet);
    let bar = ProbeBar::new(style, Some(checks.len()));
    let mut runner = Runner::new(device, arguments.quick, registry, Prober::start()?, bar);
    let begun = Instant::now();
    let (rows, stopped) = run_all(&checks, &mut runner, style);
    drop(runner);
    let report = Report::new(arguments, rows, begun.elapsed().as_secs_f64(), stopped.is_some());
    output::write_file(&arguments.out, arguments.overwrite.existing(), |file| {
        Ok(serde_json::to_writer_pretty(file, &report)?)
    })?;
    output::show(arguments.json, &report, || report.text(&arguments.out))?;
    let ended = if report.failed == 0 { Exit::Success } else { Exit::Failure };
    Ok(stopped.unwrap_or(ended))
}

/// Runs all checks, or those before a signal.
fn run_all(checks: &[GpuCheck], runner: &mut Runner<'_>, style: Style) -> (Vec<CheckRow>, Option<Exit>) {
    let mut rows = Vec::with_capacity(checks.len());
    for check in checks {
        runner.begin(check.label(), rows.len());
        let begun = Instant::now();
        let outcome = match check.run(runner) {
            Err(CheckError::Stopped(exit)) => return (rows, Some(exit)),
            outcome => outcome,
        };
        let row = CheckRow::new(check, runner.device, outcome, begun.elapsed().as_secs_f64());
        if style == Style::Lines {
            runner.notices().line(row.line(rows.len() + 1, checks.len()));
        }
        rows.push(row);
    }
    (rows, None)
}

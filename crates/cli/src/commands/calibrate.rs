//! `oomph calibrate`: measures how fast this machine trains, so that plans can say how long a training takes.

use std::{num::NonZeroUsize, path::PathBuf, time::Instant};

use clap::Args;
use oomph_arguments::count;
use oomph_calibration::{Calibration, MachineKey};
use oomph_plan::time::Work;
use oomph_trainer::{SessionError, cache_dir, measure::measured_overhead};
use serde::Serialize;

use crate::{
    error::CliError,
    exit::Exit,
    notices::Notices,
    numbers::elapsed,
    output::{self, OverwriteArguments},
    progress::{Style, WorkBar},
    table::{
        Column::{Left, Right},
        Table,
    },
};

#[derive(Args, Debug)]
pub(crate) struct CalibrateArguments {
    /// Compute threads, as with `device.threads`; default: one for each core
    #[arg(long, value_name = "N", value_parser = count(1..=1024))]
    threads: Option<u32>,
    /// Also write the calibration to a file: `device.calibration` plans with it on other machines
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: OverwriteArguments,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What was measured, as JSON.
#[derive(Serialize)]
struct Report {
    machine: MachineKey,
    seconds: f64,
    written: Vec<PathBuf>,
    /// The best rate of each kind of kernel, and its unit.
    rates: Vec<Rate>,
}

#[derive(Serialize)]
struct Rate {
    kernels: &'static str,
    rate: f64,
    unit: &'static str,
}

pub(crate) fn run(arguments: &CalibrateArguments) -> Result<Exit, CliError> {
    arguments.overwrite.check(&arguments.out)?;
    let asked = arguments.threads.and_then(|threads| NonZeroUsize::new(threads as usize));
    let threads = oomph_memory::compute_threads(asked).map_err(SessionError::from)?;
    let machine = MachineKey::here(threads);
    let own = Calibration::path(&cache_dir(), &machine);
    let written: Vec<PathBuf> = std::iter::once(own).chain(arguments.out.clone()).collect();
    // Nobody measures for nothing.
    written.iter().try_for_each(|path| Calibration::make_folder(path)).map_err(SessionError::from)?;
    let notices = Notices::default();
    if !arguments.json {
        notices.line(format!(
            "measuring {machine}; it takes about a minute, in which other programs should rest"
        ));
    }
    let start = Instant::now();
    let bar = WorkBar::new(Style::choose(arguments.json, false), "calibrate");
    let mut calibration = oomph_calibration::measure(machine, |done, of| bar.show(done, of));
    calibration.overhead_seconds = measured_overhead(&calibration)?;
    drop(bar);
    let seconds = start.elapsed().as_secs_f64();
    written.iter().try_for_each(|path| calibration.write(path)).map_err(SessionError::from)?;
    let report =
        Report { machine: calibration.machine.clone(), seconds, written, rates: rates(&calibration) };
    output::show(arguments.json, &report, || text(&report))
}

/// The best rates, for a look at what the machine reaches.
fn rates(calibration: &Calibration) -> Vec<Rate> {
    const KERNELS: [(&str, &str); 6] = [
        ("matrix products", "product"),
        ("3×3 convolutions", "conv2d 3x3"),
        ("1×1 convolutions", "conv2d 1x1"),
        ("LSTM", "lstm_forward"),
        ("element-wise", "add"),
        ("Adam", "adam"),
    ];
    let rate = |(kernels, kind): (&'static str, &str)| {
        let of_kind = calibration.samples.iter().filter(|sample| sample.work.kind == kind);
        let is_arithmetic = of_kind.clone().any(|sample| sample.work.arithmetic > 0.0);
        let amount = |work: &Work| if is_arithmetic { work.arithmetic } else { work.bytes };
        let best = of_kind.map(|sample| amount(&sample.work) / sample.seconds).max_by(f64::total_cmp)?;
        Some(Rate { kernels, rate: best, unit: if is_arithmetic { "FLOP/s" } else { "B/s" } })
    };
    KERNELS.into_iter().filter_map(rate).collect()
}

fn text(report: &Report) -> String {
    let mut table = Table::new([Left("kernels"), Right("up to")]);
    for Rate { kernels, rate, unit } in &report.rates {
        table.row([(*kernels).to_owned(), format!("{:.0} G{unit}", rate / 1e9)]);
    }
    let paths =
        report.written.iter().map(|path| format!("written to {}\n", oomph_core::printable(path.display())));
    format!("{table}\nmeasured in {}\n{}", elapsed(report.seconds), paths.collect::<String>())
}

//! `oomph profile`: records every allocation of a few steps, and compares them with the plan.

mod destination;
mod device;
mod findings;
mod report;

use std::path::PathBuf;

use clap::Args;
use oomph_arguments::{BatchArguments, DeviceArguments, NamedConfigArguments, StrategyArguments, count};
use oomph_config::{Config, DeviceName};
use oomph_trainer::{
    Registry, Session, TrainError,
    fit::fitted,
    open,
    profile::{Profile, ProfileOptions, profile, profile_device},
};

use self::{destination::Destination, device::DeviceFindings, findings::Findings, report::report};
use crate::{
    error::CliError,
    exit::Exit,
    failure,
    notices::Notices,
    numbers::grouped,
    output::{self, OverwriteArguments},
    progress::{ProfileBar, Style},
};

#[derive(Args, Debug)]
#[command(after_help = "\
It trains for some steps on the CPU, saves no checkpoint, and writes these files:
  timeline.html     the measured memory over time, and the plan, as a page for any browser; with
                    several devices, also what each device did
  snapshot.pickle   a PyTorch memory snapshot for memory_viz
  trace.json        measurement and plan for Perfetto or chrome://tracing
  timeline.jsonl    every block and span of the measurement, one JSON object a line

Examples:
  oomph profile
  oomph profile --config lstm --steps 3 --out lstm-profile
  oomph profile --config resnet --batch 64 --html batch-64.html
  oomph profile --config resnet --svg batch-32.svg
  oomph profile --devices cpu,cpu --strategy pipeline")]
pub(crate) struct ProfileArguments {
    #[command(flatten)]
    config: NamedConfigArguments,
    #[command(flatten)]
    batch: BatchArguments,
    /// Warm-up steps before the recorded ones; the first step allocates the optimizer state
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = count(0..=1000))]
    warmup: u32,
    /// Recorded steps
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = count(1..=1000))]
    steps: u32,
    /// Directory of the files [default: profiles/<config>, with a number if that exists]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write only the page, to FILE
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    html: Option<PathBuf>,
    /// Write only a picture of the measured timeline, to FILE; may be combined with --html
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    overwrite: OverwriteArguments,
    #[command(flatten)]
    device: DeviceArguments,
    #[command(flatten)]
    strategy: StrategyArguments,
    /// Show no progress
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Print one JSON object instead of the report
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &ProfileArguments, registry: &Registry) -> Result<Exit, CliError> {
    let [devices, limit] = arguments.device.flags();
    let config = arguments.config.named().load(&[
        devices,
        arguments.strategy.flag(),
        limit,
        arguments.batch.flag(),
    ])?;
    let destination = arguments.destination(&config);
    let session = open(config, registry)?;
    let session = fitted(&session)?.into_owned();
    if matches!(session.config.device.devices[..], [DeviceName::Cuda(_) | DeviceName::Vulkan(_)]) {
        return arguments.on_device(&session);
    }
    let existing = arguments.overwrite.existing();
    destination.prepare(existing)?;
    let options = arguments.options(&session);
    let (style, warmup) = (Style::choose(arguments.json, arguments.quiet), options.warmup);
    let mut bar = ProfileBar::new(style, warmup, options.steps);
    let found = profile(&session, options, &mut bar)?;
    drop(bar);
    let files = destination.write(&found, existing)?;
    warn(&found);
    let findings = Findings::new(&session, warmup, &found, &files);
    output::show(arguments.json, &findings, || report(&findings))?;
    // After the report, running out of memory is an error.
    match found.out_of_memory.map(|error| CliError::from(TrainError::OutOfMemory(Box::new(error)))) {
        // The JSON object on stdout contains the error.
        Some(error) if arguments.json => {
            failure::report(&error, false);
            Ok(error.exit())
        }
        Some(error) => Err(error),
        None => Ok(Exit::Success),
    }
}

impl ProfileArguments {
    /// Profiles a GPU. Its single allocations are not visible, so its memory pools are read at the end of each phase and
    /// stage, and there is no measured timeline.
    fn on_device(&self, session: &Session) -> Result<Exit, CliError> {
        let options = self.options(session);
        let mut bar = ProfileBar::new(Style::choose(self.json, self.quiet), options.warmup, options.steps);
        let found = profile_device(session, options, &mut bar)?;
        drop(bar);
        let findings = DeviceFindings::new(session, &found)?;
        output::show(self.json, &findings, || findings.report())
    }

    fn destination(&self, config: &Config) -> Destination {
        match (&self.out, &self.html, &self.svg) {
            (Some(path), ..) => Destination::Directory(path.clone()),
            (None, None, None) => Destination::Next(config.name().to_owned()),
            (None, html, svg) => Destination::Named { html: html.clone(), svg: svg.clone() },
        }
    }

    fn options(&self, session: &Session) -> ProfileOptions {
        let usual = ProfileOptions::default();
        ProfileOptions {
            warmup: self.warmup as usize,
            steps: self.steps as usize,
            // A profile needs a larger recording than a training.
            capacity: session.config.memory.record.max(usual.capacity),
            report: Some(output::report_directory(session.config.name())),
            ..usual
        }
    }
}

/// Warns if the recording lost events.
fn warn(profile: &Profile) {
    /// The maximum of `memory.record`.
    const MOST: u64 = 10_000_000;
    let lost = profile.first.measured.lost_events;
    if lost == 0 {
        return;
    }
    let notices = Notices::default();
    let lost = usize::try_from(lost).unwrap_or(usize::MAX);
    notices.warning(format!(
        "the recording lost its {} oldest events: the purpose of older allocations is unknown",
        grouped(lost)
    ));
    let kept: usize = profile.devices().map(|device| device.measured.times.len()).sum();
    let all = (lost as u64).saturating_add(kept as u64);
    let enough = all.div_ceil(1_000_000).saturating_mul(1_000_000);
    notices.line(if enough <= MOST {
        format!("         `--set memory.record={enough}` keeps them all")
    } else {
        "         a lower `--steps` or `--warmup` records fewer events".to_owned()
    });
}

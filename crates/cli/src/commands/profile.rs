//! `oomph profile`: a few steps with every allocation recorded, beside what was planned.

mod destination;
mod device;
mod findings;
mod report;

use std::path::PathBuf;

use clap::{Args, value_parser};
use oomph_config::{Config, DeviceName};
use oomph_trainer::{Profile, ProfileOptions, Registry, Session, TrainError, profile, profile_device};

use self::{destination::Destination, device::DeviceFindings, findings::Findings, report::report};
use crate::{
    configuration::{ConfigArguments, DeviceArguments, StrategyArguments},
    error::CliError,
    exit::Exit,
    failure,
    notices::Notices,
    numbers::grouped,
    output,
    progress::{ProfileBar, Style},
};

#[derive(Args, Debug)]
#[command(after_help = "\
It trains for some steps on the CPU, saves nothing, and writes
  timeline.html     the measurement with the plan laid over it, for any browser, without a network;
                    of several devices each, and what they did when
  snapshot.pickle   a PyTorch memory snapshot, for memory_viz
  trace.json        measurement and plan, for Perfetto or chrome://tracing
  timeline.jsonl    every block and span of the measurement, one object a line

Examples:
  oomph profile
  oomph profile --config lstm --steps 3 --out lstm-profile
  oomph profile --config resnet --set train.batch=64 --html batch-64.html
  oomph profile --devices cpu,cpu --strategy pipeline")]
pub(crate) struct ProfileArguments {
    #[command(flatten)]
    config: ConfigArguments,
    /// Steps before those that are shown: the first one makes the optimizer's state
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = value_parser!(u32).range(0..=1000))]
    warmup: u32,
    /// Steps that are shown
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(1..=1000))]
    steps: u32,
    /// The directory of the files [default: profiles/<config>, or the next one that is free]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the page alone, to this file
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    html: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArguments,
    #[command(flatten)]
    strategy: StrategyArguments,
    /// No progress on standard error
    #[arg(long, conflicts_with = "json")]
    pub(crate) quiet: bool,
    /// One JSON object instead of the report
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &ProfileArguments, registry: &Registry) -> Result<Exit, CliError> {
    let config = arguments.load()?;
    let destination = arguments.destination(&config);
    let session = Session::open(config, registry)?;
    if matches!(session.config.device.devices[..], [DeviceName::Cuda(_)]) {
        return arguments.on_device(&session);
    }
    destination.prepare()?;
    let options = arguments.options(&session);
    let style = Style::choose(arguments.json, arguments.quiet);
    let mut bar = ProfileBar::new(style, options.warmup, options.steps);
    let warmup = options.warmup;
    let found = profile(&session, options, &mut bar)?;
    drop(bar);
    let files = destination.write(&found)?;
    warn(&found);
    let findings = Findings::new(&session, warmup, &found, &files);
    if arguments.json {
        output::print_json(&findings)?;
    } else {
        output::print(&report(&findings))?;
    }
    // What led there is shown; it is a failure all the same.
    match found.out_of_memory.map(|error| CliError::from(TrainError::OutOfMemory(Box::new(error)))) {
        // The object on standard output has it.
        Some(error) if arguments.json => {
            failure::report(&error, error.hint(), error.out_of_memory(), false);
            Ok(error.exit())
        }
        Some(error) => Err(error),
        None => Ok(Exit::Success),
    }
}

impl ProfileArguments {
    /// On a GPU nobody sees single allocations: its pools are read where phases and stages end. There is no measured
    /// timeline to write.
    fn on_device(&self, session: &Session) -> Result<Exit, CliError> {
        let options = self.options(session);
        let mut bar = ProfileBar::new(Style::choose(self.json, self.quiet), options.warmup, options.steps);
        let found = profile_device(session, options, &mut bar)?;
        drop(bar);
        let findings = DeviceFindings::new(session, &found);
        if self.json {
            output::print_json(&findings)?;
        } else {
            output::print(&findings.report())?;
        }
        Ok(Exit::Success)
    }

    fn load(&self) -> Result<Config, CliError> {
        let [devices, limit] = self.device.flags();
        self.config.load(&[devices, self.strategy.flag(), limit])
    }

    fn destination(&self, config: &Config) -> Destination {
        match (&self.out, &self.html) {
            (Some(path), _) => Destination::Directory(path.clone()),
            (None, Some(path)) => Destination::Page(path.clone()),
            (None, None) => Destination::Next(config.name().to_owned()),
        }
    }

    fn options(&self, session: &Session) -> ProfileOptions {
        let usual = ProfileOptions::default();
        ProfileOptions {
            warmup: self.warmup as usize,
            steps: self.steps as usize,
            // What is enough for a training to remember may be too little here.
            capacity: session.config.memory.record.max(usual.capacity),
            report: Some(output::report_directory(session.config.name())),
            ..usual
        }
    }
}

/// Says what is missing in what is shown.
fn warn(profile: &Profile) {
    /// The most that `memory.record` takes.
    const MOST: u64 = 10_000_000;
    let lost = profile.first.measured.lost_events;
    if lost == 0 {
        return;
    }
    let notices = Notices::default();
    let lost = usize::try_from(lost).unwrap_or(usize::MAX);
    notices.warning(format!(
        "the recording lost its {} oldest events: of what was there before it is not known what it was for",
        grouped(lost)
    ));
    let kept: usize = profile.devices().map(|device| device.measured.times.len()).sum();
    let all = (lost as u64).saturating_add(kept as u64);
    let enough = all.div_ceil(1_000_000).saturating_mul(1_000_000);
    notices.line(if enough <= MOST {
        format!("         `--set memory.record={enough}` keeps them all")
    } else {
        "         a lower `--steps` or `--warmup` makes fewer of them".to_owned()
    });
}

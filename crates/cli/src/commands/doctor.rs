//! `oomph doctor`: what of this machine, its driver and this build is missing or wrong.

mod build;
mod gpus;
mod report;
mod trial;

use std::{env, num::NonZeroUsize, path::Path, thread};

use clap::Args;
use oomph_config::DeviceName;
use oomph_memory::{
    health::{self, Check, Hardware, State},
    processes::Procfs,
};
use oomph_trainer::cache_dir;
use serde::Serialize;

use self::{build::build, gpus::gpus, report::report, trial::trial};
use crate::{error::CliError, exit::Exit, output};

#[derive(Args, Debug)]
#[command(after_help = "\
The exit code is 1 where there is a problem, and 0 otherwise: a warning is none. What only a GPU
needs is a problem where the build includes CUDA and there is a `/dev/nvidia0`, or where --devices
asks for one.

Examples:
  oomph doctor
  oomph doctor --devices cuda:0      it must work: it is opened, and computes something
  oomph doctor --json")]
pub(crate) struct DoctorArguments {
    /// What must work: `cpu`, `cuda:0`, or several with commas between
    #[arg(long, value_name = "DEVICES", value_delimiter = ',')]
    devices: Vec<DeviceName>,
    /// One JSON object with all checks
    #[arg(long)]
    pub(crate) json: bool,
}

/// What `--json` says.
#[derive(Serialize)]
struct Diagnosis {
    checks: Vec<Check>,
    problems: usize,
}

pub(crate) fn run(arguments: &DoctorArguments) -> Result<Exit, CliError> {
    let checks = checks(&arguments.devices);
    let problems = checks.iter().filter(|check| check.state == State::Problem).count();
    if arguments.json {
        output::print_json(&Diagnosis { checks, problems })?;
    } else {
        output::print(&report(&checks))?;
    }
    Ok(if problems == 0 { Exit::Success } else { Exit::Failure })
}

fn checks(devices: &[DeviceName]) -> Vec<Check> {
    let procfs = Procfs::system();
    let hardware = Hardware::find(&procfs);
    let asked = devices.iter().filter(|device| matches!(device, DeviceName::Cuda(_))).count();
    // Where this process was given a GPU that this build can use, it is taken to be wanted.
    let needed = asked > 0 || (oomph_trainer::HAS_CUDA && !hardware.nodes.is_empty());
    let several = asked.max(hardware.count()) > 1;
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut checks = vec![
        build(),
        health::processor(&procfs, cores),
        health::host_memory(&procfs),
        health::shared_memory(if several { 2 } else { 1 }),
    ];
    checks.extend(health::limits(&procfs, cores, needed));
    checks.push(health::disk(&env::current_dir().unwrap_or_else(|_| Path::new(".").to_owned())));
    checks.push(health::cache(&cache_dir()));
    checks.extend(gpus(&procfs, &hardware, needed, several));
    checks.extend(devices.iter().map(|device| trial(*device)));
    checks
}

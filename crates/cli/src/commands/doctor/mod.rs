//! `oomph doctor`: problems of this machine, its driver and this build.

mod build;
mod gpus;
mod report;
mod trial;

use std::{env, num::NonZeroUsize, path::Path, thread};

use clap::Args;
use oomph_config::DeviceName;
use oomph_doctor::{
    Check, CheckState,
    health::{self, Hardware},
};
use oomph_memory::processes::Procfs;
use oomph_trainer::cache_dir;
use serde::Serialize;

use self::{build::build, gpus::gpus, report::report, trial::trial};
use crate::{error::CliError, exit::Exit, output};

#[derive(Args, Debug)]
#[command(after_help = "\
The exit code is 1 if there is a problem, else 0; warnings do not count. GPU checks can be problems
if the build includes CUDA and `/dev/nvidia0` exists, or if --devices names a GPU.

Examples:
  oomph doctor
  oomph doctor --devices cuda:0      also open the GPU and run a computation on it
  oomph doctor --json")]
pub(crate) struct DoctorArguments {
    /// Devices to test by a computation: `cpu`, `cuda:0`, or a list such as `cuda:0,cuda:1`
    #[arg(long, value_name = "DEVICES", value_delimiter = ',')]
    devices: Vec<DeviceName>,
    /// Print one JSON object with all checks
    #[arg(long)]
    pub(crate) json: bool,
}

/// The checks as JSON.
#[derive(Serialize)]
struct Diagnosis {
    checks: Vec<Check>,
    problems: usize,
}

pub(crate) fn run(arguments: &DoctorArguments) -> Result<Exit, CliError> {
    let checks = checks(&arguments.devices);
    let problems = checks.iter().filter(|check| check.state == CheckState::Problem).count();
    let diagnosis = Diagnosis { checks, problems };
    output::show(arguments.json, &diagnosis, || report(&diagnosis.checks))?;
    Ok(if problems == 0 { Exit::Success } else { Exit::Failure })
}

fn checks(devices: &[DeviceName]) -> Vec<Check> {
    let procfs = Procfs::system();
    let hardware = Hardware::find(&procfs);
    let asked = devices.iter().filter(|device| matches!(device, DeviceName::Cuda(_))).count();
    // GPU checks are required if this process has a GPU that the build can use.
    let needed = asked > 0 || (oomph_doctor::HAS_CUDA && !hardware.nodes.is_empty());
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

//! `oomph doctor`: problems of this machine, its driver and this build.

mod gpus;

use std::{env, fmt::Write as _, num::NonZeroUsize, panic::catch_unwind, path::Path, thread};

use clap::Args;
use console::style;
use oomph_config::DeviceName;
use oomph_core::printable;
use oomph_doctor::{
    Check, CheckState, GPU_BACKEND, HAS_CUDA, HAS_VULKAN,
    health::{self, Hardware},
};
use oomph_memory::processes::Procfs;
use oomph_trainer::{
    cache_dir,
    device::{TrialError, try_device},
};
use serde::Serialize;

use self::gpus::{gpus, of_vulkan};
use crate::{
    bug::{self, Bug},
    error::CliError,
    exit::Exit,
    numbers::plural,
    output,
};

#[derive(Args, Debug)]
#[command(after_help = "\
The exit code is 1 if there is a problem, else 0; warnings do not count. GPU checks can be problems
if the build includes CUDA and `/dev/nvidia0` exists, or if --devices names a GPU.

Examples:
  oomph doctor
  oomph doctor --devices cuda:0   also open the GPU and run a computation on it
  oomph doctor --json")]
pub(crate) struct DoctorArguments {
    /// Devices to test by a computation: `cpu`, `cuda:0`, `vulkan:0`, or a list such as `cuda:0,cuda:1`
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
    let survey = Survey::find(devices);
    let Survey { procfs, needs_gpu, has_several, .. } = &survey;
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut checks = vec![
        build(),
        health::processor(procfs, cores),
        health::host_memory(procfs),
        health::shared_memory(if *has_several { 2 } else { 1 }),
    ];
    checks.extend(health::limits(procfs, cores, *needs_gpu));
    checks.push(health::disk(&env::current_dir().unwrap_or_else(|_| Path::new(".").to_owned())));
    checks.push(health::cache(&cache_dir()));
    checks.extend(survey.gpu_checks(devices));
    checks.extend(devices.iter().map(|device| trial(*device)));
    checks
}

/// The checks of GPUs, their drivers and libraries. No device is opened.
pub(crate) fn gpu_checks(devices: &[DeviceName]) -> Vec<Check> {
    Survey::find(devices).gpu_checks(devices)
}

/// What this machine has, and what it is asked to do with NVIDIA GPUs.
struct Survey {
    procfs: Procfs,
    hardware: Hardware,
    /// Whether training on an NVIDIA GPU must work.
    needs_gpu: bool,
    /// Whether more than one may train together.
    has_several: bool,
}

impl Survey {
    fn find(devices: &[DeviceName]) -> Self {
        let procfs = Procfs::system();
        let hardware = Hardware::find(&procfs);
        let asked = devices.iter().filter(|device| matches!(device, DeviceName::Cuda(_))).count();
        Self {
            // GPU checks are required if this process has a GPU that the build can use.
            needs_gpu: asked > 0 || (HAS_CUDA && !hardware.nodes.is_empty()),
            has_several: asked.max(hardware.count()) > 1,
            procfs,
            hardware,
        }
    }

    fn gpu_checks(&self, devices: &[DeviceName]) -> Vec<Check> {
        if HAS_VULKAN {
            return of_vulkan(devices.iter().any(|device| matches!(device, DeviceName::Vulkan(_))));
        }
        gpus(&self.procfs, &self.hardware, self.needs_gpu, self.has_several)
    }
}

/// The version and the features of this build.
fn build() -> Check {
    let backend = GPU_BACKEND.map_or_else(|| "for the CPU only".to_owned(), |name| format!("with {name}"));
    let finding = format!("oomph {}, {backend}", env!("CARGO_PKG_VERSION"));
    if oomph_memory::is_installed() {
        return Check::ok("build", format!("{finding}, with the memory meter"));
    }
    Check::warning(
        "build",
        format!("{finding}, without the memory meter"),
        "put `oomph::install_meter!();` into the program's `main.rs`: without it, nothing is measured and memory \
         limits have no effect",
    )
}

/// Opens a device and checks a matrix product on it.
fn trial(device: DeviceName) -> Check {
    let name = device.to_string();
    match catch_unwind(|| try_device(device)) {
        Ok(Ok(())) => Check::ok(name, "opened; a matrix product is correct"),
        Ok(Err(TrialError::Device(error))) => {
            let hint = error.hint().unwrap_or_else(|| "`nvidia-smi` shows the state of the GPU".to_owned());
            Check::problem(name, error.to_string(), hint)
        }
        // If the device thread panicked in a kernel, only the wrong result shows it.
        Ok(Err(error @ TrialError::Wrong { .. })) => match bug::known_panic() {
            Some(panic) => panicked(name, &panic),
            None => {
                let hint =
                    "restart the machine; if the result is still wrong, the hardware or a kernel is broken";
                Check::problem(name, error.to_string(), hint)
            }
        },
        Err(_) => panicked(name, &bug::last_panic()),
    }
}

fn panicked(name: String, panic: &Bug) -> Check {
    let explanation = panic.explanation().map(|it| format!("; likely: {}", it.what));
    Check::problem(name, format!("{panic}{}", explanation.unwrap_or_default()), panic.hint())
}

/// One line per check with aligned names and states; the hint is below the finding.
fn report(checks: &[Check]) -> String {
    let names = checks.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
    let states = checks.iter().map(|check| check.state.to_string().len()).max().unwrap_or(0);
    let mut text = String::new();
    for Check { name, state, finding, hint } in checks {
        let shown = style(format!("{state:states$}"));
        let shown = match state {
            CheckState::Ok => shown.green(),
            CheckState::Skipped => shown.dim(),
            CheckState::Warning => shown.yellow().bold(),
            CheckState::Problem => shown.red().bold(),
        };
        // Writing to a string cannot fail; the same below.
        let _ = writeln!(text, "{name:names$}  {shown}  {}", printable(finding));
        if let Some(hint) = hint {
            let indent = " ".repeat(names + 2 + states + 2);
            let _ = writeln!(text, "{indent}{} {}", style("hint:").cyan().bold(), printable(hint));
        }
    }
    let _ = writeln!(text, "\n{}", verdict(checks));
    text
}

/// The last line: the number of problems and warnings.
fn verdict(checks: &[Check]) -> String {
    let counted = |(state, what): (CheckState, &str)| {
        let count = checks.iter().filter(|check| check.state == state).count();
        (count > 0).then(|| plural(count, what))
    };
    let states = [(CheckState::Problem, "problem"), (CheckState::Warning, "warning")];
    let wrong: Vec<_> = states.into_iter().filter_map(counted).collect();
    if wrong.is_empty() { "no problems".to_owned() } else { wrong.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_below_the_findings() {
        console::set_colors_enabled(false);
        let checks = [
            Check::ok("disk", "9.00 GiB free"),
            Check::skipped("GPUs", "none"),
            Check::warning("open files", "at most 256", "`ulimit -n 4096`"),
            Check::problem("x", "y", "z"),
        ];
        insta::assert_snapshot!(report(&checks), @r"
        disk        ok       9.00 GiB free
        GPUs        skipped  none
        open files  warning  at most 256
                             hint: `ulimit -n 4096`
        x           problem  y
                             hint: z

        1 problem, 1 warning
        ");
        insta::assert_snapshot!(report(&checks[..2]), @r"
        disk  ok       9.00 GiB free
        GPUs  skipped  none

        no problems
        ");
    }
}

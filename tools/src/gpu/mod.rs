//! Runs a command of `oomph` on simulated GPUs.
//!
//! ```text
//! cargo xtask gpu train --config resnet --devices cuda:0 --set train.steps=3
//! cargo xtask gpu --cards "2xRTX 4090" --report counts.json train --config ddp --devices cuda:0,cuda:1
//! cargo xtask gpu --faults alloc-fails-at=200 train --config lstm --devices cuda:0
//! cargo xtask gpu check
//! cargo xtask gpu steps
//! ```
//!
//! The tool builds oomph with its CUDA backend and the simulated driver (`tools/cuda_sim`), installs NVIDIA's run-time
//! compiler from PyPI into `target/gpu` once, and starts the command. What a run tunes or compiles is kept in `target/gpu`
//! too, apart from what a real card keeps. Kernels are compiled, checked and computed on
//! the processor; with `--mode count` they are only counted. `check` trains on simulated GPUs and on the processor, and
//! compares the losses; `steps` counts what a step asks of a GPU.

mod check;
mod steps;
mod toolkit;

use std::{
    env,
    error::Error,
    fs,
    os::unix::{fs::symlink, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use oomph_tree::Tree;

use crate::{Outcome, program};

/// Options of the tool, each with the variable of the simulated driver that it sets.
const OPTIONS: [(&str, &str); 6] = [
    ("--cards", "CUDA_SIM_CARDS"),
    ("--memory", "CUDA_SIM_MEMORY"),
    ("--mode", "CUDA_SIM_MODE"),
    ("--faults", "CUDA_SIM_FAULTS"),
    ("--report", "CUDA_SIM_REPORT"),
    ("--log", "CUDA_SIM_LOG"),
];

/// The names under which programs load the simulated driver.
const DRIVER_NAMES: [&str; 5] =
    ["libcuda.so", "libcuda.so.1", "libnvidia-ml.so.1", "libnccl.so", "libnccl.so.2"];

/// Runs the tool.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let (variables, command) = parted(arguments)?;
    if command.is_empty() {
        return Err("no command of oomph is given, as in `cargo xtask gpu doctor --devices cuda:0`".into());
    }
    let machine = Machine::installed()?;
    if let [name, words @ ..] = command {
        match &**name {
            "check" => return check::run(&machine, words),
            "steps" => return steps::run(&machine, words),
            _ => {}
        }
    }
    let status = machine.oomph().args(command).envs(variables).status()?;
    let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// A machine with simulated GPUs.
struct Machine {
    oomph: PathBuf,
    libraries: String,
    folder: PathBuf,
}

impl Machine {
    /// Builds oomph and the simulated driver, and installs the compiler.
    fn installed() -> Result<Self, Box<dyn Error>> {
        let folder = Tree::own().root().join("target/gpu");
        let oomph = oomph_for_cuda(&folder)?;
        let libraries = libraries(&folder)?;
        Ok(Self { oomph, libraries, folder })
    }

    /// `oomph` on this machine, without arguments.
    fn oomph(&self) -> Command {
        let mut command = Command::new(&self.oomph);
        command
            .env("LD_LIBRARY_PATH", &self.libraries)
            .env("CUDA_PATH", self.folder.join("toolkit/cuda"))
            .env("XDG_CACHE_HOME", self.folder.join("cache"));
        command
    }
}

/// The variables that the options set, and the command behind them.
#[expect(clippy::type_complexity, reason = "a pair of lists for one caller")]
fn parted(arguments: &[String]) -> Result<(Vec<(&'static str, &str)>, &[String]), Box<dyn Error>> {
    let mut variables = Vec::new();
    let mut rest = arguments;
    while let [name, behind @ ..] = rest {
        if name == "--" {
            return Ok((variables, behind));
        }
        let Some((_, variable)) = OPTIONS.iter().find(|(option, _)| option == name) else { break };
        let [value, behind @ ..] = behind else { return Err(format!("`{name}` needs a value").into()) };
        variables.push((*variable, &**value));
        rest = behind;
    }
    Ok((variables, rest))
}

/// Builds oomph with CUDA, and keeps the binary beside the plain one.
fn oomph_for_cuda(folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let built = program::built_with("oomph", "oomph", &["--features", "cuda"])?;
    fs::create_dir_all(folder)?;
    let kept = folder.join("oomph");
    // A copy beside the final name: the old binary may be running.
    let fresh = folder.join("oomph.new");
    fs::copy(built, &fresh)?;
    fs::rename(&fresh, &kept)?;
    Ok(kept)
}

/// Builds the simulated driver and installs the compiler. Gives the search path of both.
fn libraries(folder: &Path) -> Result<String, Box<dyn Error>> {
    let compiler = toolkit::installed(&folder.join("toolkit"))?;
    let driver = program::library("oomph-cuda-sim", "liboomph_cuda_sim.so")?;
    let links = folder.join("lib");
    fs::create_dir_all(&links)?;
    let linked = |target: &Path, name: &str| {
        let link = links.join(name);
        // Missing the first time.
        let _ = fs::remove_file(&link);
        symlink(target, link)
    };
    DRIVER_NAMES.iter().try_for_each(|name| linked(&driver, name))?;
    linked(&compiler.join(toolkit::COMPILER), "libnvrtc.so")?;
    let before = env::var("LD_LIBRARY_PATH").map(|path| format!(":{path}")).unwrap_or_default();
    Ok(format!("{}:{}{before}", links.display(), compiler.display()))
}

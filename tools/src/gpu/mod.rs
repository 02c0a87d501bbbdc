//! Runs a command of `oomph` on simulated GPUs.
//!
//! ```text
//! cargo xtask gpu train --config resnet --devices cuda:0 --set train.steps=3
//! cargo xtask gpu --cards "2xRTX 4090" --report counts.json train --config ddp --devices cuda:0,cuda:1
//! cargo xtask gpu --faults alloc-fails-at=200 train --config lstm --devices cuda:0
//! cargo xtask gpu check
//! cargo xtask gpu --real --oomph target/release/oomph check
//! cargo xtask gpu steps
//! cargo xtask gpu pages
//! ```
//!
//! The tool builds oomph with its CUDA backend and the simulated driver (`tools/cuda_sim`), installs NVIDIA's run-time
//! compiler from PyPI into `target/gpu` once, and starts the command. What a run tunes or compiles is kept in `target/gpu`
//! too, apart from what a real card keeps. Kernels are compiled, checked and computed on
//! the processor; with `--mode count` they are only counted.
//!
//! - [`check`] trains on simulated GPUs and on the processor, and compares the losses; with `--real` on the GPU of this machine.
//! - [`steps`] counts what a step asks of a GPU, and the bytes that its kernels move.
//! - [`pages`] compares plans with what the driver gives.
//! - [`find_batch_truth`] compares what `find-batch` finds with the largest batch that trains.
//! - [`kernels`] compiles the kernels of all configs for several cards.

pub(crate) mod check;
mod find_batch_truth;
mod kernels;
pub(crate) mod pages;
mod steps;
mod toolkit;

use std::{
    env,
    error::Error,
    fs,
    os::unix::{fs::symlink, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    thread,
};

use oomph_tree::Tree;
use toolkit::{Installed, TOOLKITS, Toolkit};

use crate::{Outcome, program};

/// Options of the tool that set a variable of the simulated driver.
const VARIABLES: [(&str, &str); 7] = [
    ("--cards", "CUDA_SIM_CARDS"),
    ("--memory", "CUDA_SIM_MEMORY"),
    ("--mode", "CUDA_SIM_MODE"),
    ("--faults", "CUDA_SIM_FAULTS"),
    ("--report", "CUDA_SIM_REPORT"),
    ("--log", "CUDA_SIM_LOG"),
    ("--kernels", "CUDA_SIM_KERNELS"),
];

/// The names under which programs load the simulated driver, and the watch on NVRTC, which is the same library.
const LIBRARY_NAMES: [&str; 6] =
    ["libcuda.so", "libcuda.so.1", "libnvidia-ml.so.1", "libnccl.so", "libnccl.so.2", "libnvrtc.so"];

/// Runs the tool.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let options = Options::parse(arguments)?;
    let [command, rest @ ..] = options.command else {
        return Err("no command of oomph is given, as in `cargo xtask gpu doctor --devices cuda:0`".into());
    };
    if command == "kernels" {
        return kernels::run(&options, rest);
    }
    if options.is_real {
        return match &**command {
            "check" => check::run_on_card(options.oomph.ok_or("`--real` needs `--oomph PATH`")?, rest),
            other => {
                Err(format!("`{other}` needs simulated GPUs; `--real` goes together with `check`").into())
            }
        };
    }
    let setup = Setup::new(options.oomph)?;
    let simulation = setup.with(options.toolkit.unwrap_or(&TOOLKITS[0]))?;
    match &**command {
        "check" => return check::run(&simulation, rest),
        "steps" => return steps::run(&simulation, rest),
        "pages" => return pages::run(&simulation, rest),
        "find-batch-truth" => return find_batch_truth::run(&simulation, rest),
        _ => {}
    }
    let mut command = simulation.command(&setup.folder.join("cache"));
    let status = command.args(options.command).envs(options.variables).status()?;
    let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// The options before the command.
struct Options<'a> {
    /// Variables of the simulated driver, with their values.
    variables: Vec<(&'static str, &'a str)>,
    /// A binary that is built already.
    oomph: Option<&'a str>,
    toolkit: Option<&'static Toolkit>,
    /// Whether the GPU of this machine computes.
    is_real: bool,
    command: &'a [String],
}

impl<'a> Options<'a> {
    fn parse(arguments: &'a [String]) -> Result<Self, Box<dyn Error>> {
        let mut options =
            Self { variables: Vec::new(), oomph: None, toolkit: None, is_real: false, command: arguments };
        while let [name, behind @ ..] = options.command {
            if name == "--" {
                options.command = behind;
                break;
            }
            if name == "--real" {
                options.is_real = true;
                options.command = behind;
                continue;
            }
            let variable = VARIABLES.iter().find(|(option, _)| option == name);
            if variable.is_none() && !["--oomph", "--toolkit"].contains(&name.as_str()) {
                break;
            }
            let [value, behind @ ..] = behind else { return Err(format!("`{name}` needs a value").into()) };
            match variable {
                Some((_, variable)) => options.variables.push((*variable, value)),
                None if name == "--oomph" => options.oomph = Some(value),
                None => options.toolkit = Some(toolkit::find(value)?),
            }
            options.command = behind;
        }
        Ok(options)
    }
}

/// What all simulations share.
struct Setup {
    /// `target/gpu`.
    folder: PathBuf,
    oomph: PathBuf,
    /// The folder with the driver's library, under all its names.
    links: PathBuf,
}

impl Setup {
    /// Builds oomph, unless a binary is given, and the simulated driver, and links its library.
    fn new(oomph: Option<&str>) -> Result<Self, Box<dyn Error>> {
        let folder = Tree::own().root().join("target/gpu");
        let oomph = oomph.map_or_else(|| oomph_with("cuda", &folder), |path| Ok(fs::canonicalize(path)?))?;
        let driver = program::library("oomph-cuda-sim", "liboomph_cuda_sim.so")?;
        let links = folder.join("lib");
        fs::create_dir_all(&links)?;
        for name in LIBRARY_NAMES {
            let link = links.join(name);
            // Missing the first time.
            let _ = fs::remove_file(&link);
            symlink(&driver, link)?;
        }
        Ok(Self { folder, oomph, links })
    }

    /// Installs a toolkit.
    fn with(&self, toolkit: &Toolkit) -> Result<Simulation<'_>, Box<dyn Error>> {
        let toolkit = toolkit.installed(&self.folder.join(format!("toolkit-{}", toolkit.major)))?;
        Ok(Simulation { setup: self, toolkit })
    }
}

/// Simulated cards and a toolkit.
struct Simulation<'a> {
    setup: &'a Setup,
    toolkit: Installed,
}

impl Simulation<'_> {
    /// A start of oomph, which keeps what it tunes and compiles in `cache`.
    fn command(&self, cache: &Path) -> Command {
        let compiler = self.toolkit.compiler.parent().unwrap_or(Path::new(""));
        let before = env::var("LD_LIBRARY_PATH").map(|path| format!(":{path}")).unwrap_or_default();
        let mut command = Command::new(&self.setup.oomph);
        command
            .env("LD_LIBRARY_PATH", format!("{}:{}{before}", self.setup.links.display(), compiler.display()))
            .env("CUDA_SIM_NVRTC", &self.toolkit.compiler)
            .env("CUDA_PATH", &self.toolkit.cuda)
            .env("XDG_CACHE_HOME", cache);
        command
    }
}

/// The words of `--only`, and the number of `--jobs`.
fn read_jobs(arguments: &[String]) -> Result<(String, usize), Box<dyn Error>> {
    let (mut only, mut jobs) = (String::new(), thread::available_parallelism().map_or(1, usize::from));
    for pair in arguments.chunks(2) {
        match pair {
            [name, value] if name == "--only" => value.clone_into(&mut only),
            [name, value] if name == "--jobs" => jobs = value.parse()?,
            _ => return Err(format!("`{}`: expected `--only WORDS` or `--jobs N`", pair.join(" ")).into()),
        }
    }
    Ok((only, jobs))
}

/// Builds oomph with a backend for GPUs, and keeps the binary in `folder`, apart from the plain one.
pub(crate) fn oomph_with(feature: &str, folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let built = program::built_with("oomph", "oomph", &["--features", feature])?;
    fs::create_dir_all(folder)?;
    let kept = folder.join("oomph");
    // A copy beside the final name: the old binary may be running.
    let fresh = folder.join("oomph.new");
    fs::copy(built, &fresh)?;
    fs::rename(&fresh, &kept)?;
    Ok(kept)
}

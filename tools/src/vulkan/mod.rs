//! Runs a command of `oomph` on a Vulkan driver that computes on the processor: Mesa's lavapipe.
//!
//! ```text
//! cargo xtask vulkan train --config resnet --devices vulkan:0 --set train.steps=3
//! cargo xtask vulkan check
//! cargo xtask vulkan pages
//! ```
//!
//! The tool builds oomph with its Vulkan backend into `target/vulkan` and starts the command. It does not install lavapipe;
//! Debian and Ubuntu have it in `mesa-vulkan-drivers`.
//!
//! - [`check`] trains on lavapipe and on the processor by our own kernels, and compares the losses and gradients.
//! - [`pages`] compares plans with the memory pools.

mod check;
mod pages;

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use oomph_tree::Tree;

use crate::{Outcome, gpu::oomph_with};

/// Where distributions put the manifests of Vulkan drivers.
const MANIFESTS: &str = "/usr/share/vulkan/icd.d";

/// Runs the tool.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let (given, command) = match arguments {
        [option, path, command @ ..] if option == "--oomph" => (Some(path), command),
        command => (None, command),
    };
    let [command, rest @ ..] = command else {
        return Err(
            "no command of oomph is given, as in `cargo xtask vulkan doctor --devices vulkan:0`".into()
        );
    };
    let lavapipe = Lavapipe::find(given.map(Path::new))?;
    match &**command {
        "check" => check::run(&lavapipe, rest),
        "pages" => pages::run(&lavapipe, rest),
        _ => {
            let status = lavapipe.start().arg(command).args(rest).status()?;
            Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

/// The driver, and oomph with Vulkan.
struct Lavapipe {
    manifest: PathBuf,
    /// `target/vulkan`.
    folder: PathBuf,
    oomph: PathBuf,
}

impl Lavapipe {
    /// Finds the driver, and builds oomph unless a binary is given.
    fn find(oomph: Option<&Path>) -> Result<Self, Box<dyn Error>> {
        let missing = || {
            format!(
                "lavapipe is not installed: `{MANIFESTS}` has no `lvp_icd.*.json`; `apt-get install mesa-vulkan-drivers`"
            )
        };
        let files = fs::read_dir(MANIFESTS).map_err(|_| missing())?.filter_map(Result::ok);
        let is_lavapipe = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("lvp_icd."))
        };
        let manifest = files.map(|file| file.path()).find(is_lavapipe).ok_or_else(missing)?;
        let folder = Tree::own().root().join("target/vulkan");
        let oomph = match oomph {
            Some(path) => fs::canonicalize(path)?,
            None => oomph_with("vulkan", &folder)?,
        };
        Ok(Self { manifest, folder, oomph })
    }

    /// A start of oomph on lavapipe alone.
    fn start(&self) -> Command {
        let mut command = Command::new(&self.oomph);
        command
            // The newer name, and the one of loaders before 1.3.207.
            .env("VK_DRIVER_FILES", &self.manifest)
            .env("VK_ICD_FILENAMES", &self.manifest)
            .env("XDG_CACHE_HOME", self.folder.join("cache"));
        // Mesa complains without one.
        if env::var_os("XDG_RUNTIME_DIR").is_none() {
            command.env("XDG_RUNTIME_DIR", env::temp_dir());
        }
        command
    }
}

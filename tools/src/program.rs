//! The programs that tools start: built beside xtask itself.

use std::{
    env,
    error::Error,
    path::PathBuf,
    process::{Command, ExitCode},
};

use crate::Outcome;

/// Builds the release binary `name` of `package` and gives its path.
pub(crate) fn built(package: &str, name: &str) -> Result<PathBuf, Box<dyn Error>> {
    built_with(package, name, &[])
}

/// The same with further arguments for Cargo. With `oomph` in the selection, all dependencies have the features that it asks
/// for, and are not compiled again.
pub(crate) fn built_with(package: &str, name: &str, more: &[&str]) -> Result<PathBuf, Box<dyn Error>> {
    build(&[&["--package", "oomph", "--package", package, "--bin", name], more].concat())?;
    beside_xtask(name)
}

/// Builds the shared library of `package` and gives its path.
pub(crate) fn library(package: &str, file: &str) -> Result<PathBuf, Box<dyn Error>> {
    build(&["--package", package, "--lib"])?;
    beside_xtask(file)
}

fn build(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--release"]).args(arguments);
    // `cargo run` sets them for this tool. Build scripts watch them (ring's): a change builds half the tree again.
    for (name, _) in env::vars_os() {
        let is_of_run = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(is_of_run) {
            command.env_remove(name);
        }
    }
    let status = command.current_dir(oomph_tree::Tree::own().root()).status()?;
    if status.success() { Ok(()) } else { Err(format!("`cargo build {}` fails", arguments.join(" ")).into()) }
}

fn beside_xtask(file: &str) -> Result<PathBuf, Box<dyn Error>> {
    Ok(env::current_exe()?.with_file_name(file))
}

/// Builds `oomph` and gives its path.
pub(crate) fn oomph() -> Result<PathBuf, Box<dyn Error>> {
    built("oomph", "oomph")
}

/// Builds a binary and runs it to its end.
pub(crate) fn run(package: &str, name: &str, arguments: &[String]) -> Outcome {
    let status = Command::new(built(package, name)?).args(arguments).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

//! The programs that tools start: built beside xtask itself.

use std::{
    env,
    error::Error,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use serde_json::Value;

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

/// Lets `oomph` measure this machine.
pub(crate) fn calibrate(oomph: &Path) -> Result<(), Box<dyn Error>> {
    let status = Command::new(oomph).arg("calibrate").status()?;
    if status.success() { Ok(()) } else { Err("`oomph calibrate` fails".into()) }
}

/// The rows of `oomph compare --json` for a configuration, with further arguments. Each row was trained in a process of its own.
pub(crate) fn compared(oomph: &Path, config: &str, arguments: &[&str]) -> Result<Vec<Value>, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("case.toml"), config)?;
    let mut command = Command::new(oomph);
    command.args(["compare", "--config", "case.toml", "--json"]).args(arguments);
    let answer: Value = serde_json::from_slice(&command.current_dir(folder.path()).output()?.stdout)?;
    Ok(answer["rows"].as_array().cloned().ok_or("`oomph compare --json` has no `rows`")?)
}

/// A number of a row.
pub(crate) fn figure(row: &Value, key: &str) -> Result<f64, Box<dyn Error>> {
    Ok(row[key].as_f64().ok_or_else(|| format!("a row of `oomph compare --json` has no `{key}`: {row}"))?)
}

/// Builds a binary and runs it to its end.
pub(crate) fn run(package: &str, name: &str, arguments: &[String]) -> Outcome {
    let status = Command::new(built(package, name)?).args(arguments).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

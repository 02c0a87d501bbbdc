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
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--package", package, "--bin", name])
        .current_dir(oomph_tree::Tree::own().root())
        .status()?;
    if !status.success() {
        return Err(format!("`{name}` of `{package}` does not build").into());
    }
    Ok(env::current_exe()?.with_file_name(name))
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

//! Builds the programs that `oomph-attack` attacks and starts, and starts it.
//!
//! ```text
//! cargo xtask attack                          # all attacks, the short forms
//! cargo xtask attack kills --long --save      # writes docs/tables/attack-kills.json
//! cargo xtask attack hostile --cases 50 --only weights
//! ```
//!
//! `attack` in `tools/attack` explains its arguments.

use std::{
    fs,
    path::Path,
    process::{Command, ExitCode},
};

use crate::{Outcome, program};

/// Runs the tool.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let has_mpi = Command::new("mpicc").arg("--version").output().is_ok_and(|answer| answer.status.success());
    if has_mpi {
        build_mpi()?;
    }
    let oomph = program::oomph()?;
    program::built("oomph-tools", "fuzz_parsers")?;
    program::built("oomph-tools", "poisoned")?;
    let attack = program::built("oomph-attack", "attack")?;
    let status = Command::new(attack).arg("--oomph").arg(oomph).args(arguments).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds `oomph` with the feature `mpi` into the folder `mpi` beside xtask. The build without the feature takes its place
/// afterwards.
fn build_mpi() -> Result<(), Box<dyn std::error::Error>> {
    let built = program::built_with("oomph", "oomph", &["--features", "mpi"])?;
    let folder = built.parent().unwrap_or(Path::new(".")).join("mpi");
    fs::create_dir_all(&folder)?;
    // A hard link of the program in place could be running, or be written by the next build.
    let place = folder.join("oomph");
    match fs::remove_file(&place) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        Ok(()) | Err(_) => {}
    }
    fs::copy(built, place)?;
    Ok(())
}

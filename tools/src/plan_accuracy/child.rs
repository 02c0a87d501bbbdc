//! Measuring a case in a process of its own: a backend keeps some memory until its process ends.

use std::{env, io, process::Command};

use serde::de::DeserializeOwned;

/// Runs this tool again with `flag` and a configuration, and reads the outcome that it prints.
pub(super) fn in_a_process<T: DeserializeOwned>(flag: &str, config: &str) -> io::Result<T> {
    let output = Command::new(env::current_exe()?).args(["plan-accuracy", flag, config]).output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

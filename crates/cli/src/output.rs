//! Standard output: what a command was asked for, and nothing else. And files, which are whole or not there.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use oomph_memory::export;
use serde::Serialize;

use crate::error::CliError;

/// Writes a text: lines, or what follows of one that is on its way.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(CliError::Output)
}

/// Writes a value as one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    let line = serde_json::to_string(value).map_err(|error| CliError::Output(error.into()))?;
    print(&(line + "\n"))
}

/// Where the report of what ran out of memory goes that has no run directory to take it.
pub(crate) fn report_directory(name: &str) -> PathBuf {
    Path::new("out-of-memory").join(name)
}

/// Writes a file that is whole or not there.
pub(crate) fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), CliError> {
    export::write_file(path, write).map_err(|source| CliError::File { path: path.to_owned(), source })
}

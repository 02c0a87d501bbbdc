//! Standard output: what a command was asked for, and nothing else. And files, which are whole or not there.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::error::CliError;

/// Writes a text that ends with a newline.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(CliError::Output)
}

/// Writes a value as one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    let line = serde_json::to_string(value).map_err(|error| CliError::Output(error.into()))?;
    print(&(line + "\n"))
}

/// Writes a file beside its final name first: under that it is whole. The name beside is this process's own.
pub(crate) fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), CliError> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}.part", std::process::id()));
    let unfinished = PathBuf::from(unfinished);
    let written = || {
        let mut file = BufWriter::new(File::create(&unfinished)?);
        write(&mut file)?;
        file.flush()?;
        fs::rename(&unfinished, path)
    };
    written().map_err(|source| {
        // Half a file is of no use; where it cannot be removed either, the first error is the one to tell.
        let _ = fs::remove_file(&unfinished);
        CliError::File { path: path.to_owned(), source }
    })
}

//! Writes results to stdout and to files.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use oomph_core::files::{self, Existing, WriteError};
use oomph_timeline::{
    Timeline,
    export::{self, Page},
};
use serde::Serialize;

use crate::{error::CliError, exit::Exit, stream};

/// The weights of a checkpoint whose training kept an average of them, in words.
pub const AVERAGED: &str = "averages over steps (`train.ema`, `train.swa`)";

/// Writes a text to stdout and flushes it.
pub fn print(text: &str) -> Result<(), CliError> {
    stream::print(text).map_err(CliError::Output)
}

/// Writes a value to stdout as one line of JSON.
pub fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    stream::print_json(value).map_err(CliError::Output)
}

/// Writes a result to stdout: with `json` the value, else the text.
pub fn show(json: bool, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<Exit, CliError> {
    if json {
        print_json(value)?
    } else {
        print(&text())?
    }
    Ok(Exit::Success)
}

/// The directory of out-of-memory reports of commands without a run directory.
pub fn report_directory(name: &str) -> PathBuf {
    Path::new("out-of-memory").join(name)
}

/// What becomes of files that already have the names of new ones.
#[derive(Args, Clone, Copy, Debug)]
pub struct OverwriteArguments {
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

impl OverwriteArguments {
    /// Whether files are overwritten.
    pub fn existing(self) -> Existing {
        if self.force { Existing::Replace } else { Existing::Keep }
    }

    /// Refuses files that cannot be written, before minutes of work: [`check_file`], and that their folders exist.
    pub fn check<'a>(self, paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<(), CliError> {
        paths.into_iter().try_for_each(|path| {
            check_file(path, self.existing())?;
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let found = folder.map_or(Ok(()), |folder| fs::metadata(folder).map(drop));
            found.map_err(|source| CliError::File { path: path.clone(), source })
        })
    }
}

/// Refuses a file that exists and stays, a file of a checkpoint, and anything but a file.
pub fn check_file(path: &Path, existing: Existing) -> Result<(), CliError> {
    files::check_target(path, existing).map_err(refused(path))?;
    // A checkpoint with a replaced file is damaged, since its checksums no longer match.
    if path.exists() && path.with_file_name("state.json").is_file() {
        return Err(CliError::InCheckpoint { path: path.to_owned() });
    }
    Ok(())
}

/// Writes a file that the user named: complete or not at all, and only where [`check_file`] allows it.
pub fn write_file(
    path: &Path,
    existing: Existing,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), CliError> {
    check_file(path, existing)?;
    files::write_file(path, existing, write).map_err(refused(path))
}

fn refused(path: &Path) -> impl FnOnce(WriteError) -> CliError {
    let path = path.to_owned();
    move |error| match error {
        WriteError::Exists => CliError::FileExists { path },
        WriteError::NotAFile(found) => CliError::NotAFile { path, found },
        WriteError::Io(source) => CliError::File { path, source },
    }
}

/// Writes a timeline as the page `html` and as the picture `svg`, each if named. Returns the paths of the files.
pub fn write_timeline(
    timeline: &Timeline,
    [html, svg]: [Option<&Path>; 2],
    existing: Existing,
) -> Result<Vec<PathBuf>, CliError> {
    if let Some(path) = html {
        write_file(path, existing, |out| export::html(&Page::new(timeline), out))?;
    }
    if let Some(path) = svg {
        write_file(path, existing, |out| export::svg(timeline, out))?;
    }
    Ok([html, svg].into_iter().flatten().map(Path::to_owned).collect())
}

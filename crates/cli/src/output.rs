//! Writes results to stdout and to files.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use oomph_timeline::{
    Timeline,
    export::{self, Page},
};
use serde::Serialize;

use crate::{error::CliError, exit::Exit};

/// Writes a text to stdout and flushes it.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(CliError::Output)
}

/// Writes a value to stdout as one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    let line = serde_json::to_string(value).map_err(|error| CliError::Output(error.into()))?;
    print(&(line + "\n"))
}

/// Writes a result to stdout: with `json` the value, else the text.
pub(crate) fn show(
    json: bool,
    value: &impl Serialize,
    text: impl FnOnce() -> String,
) -> Result<Exit, CliError> {
    if json {
        print_json(value)?
    } else {
        print(&text())?
    }
    Ok(Exit::Success)
}

/// The directory of out-of-memory reports of commands without a run directory.
pub(crate) fn report_directory(name: &str) -> PathBuf {
    Path::new("out-of-memory").join(name)
}

/// Refuses to replace an existing file without `force`, and anything but a file at all: writing renames a new file into
/// place, which would replace a link, a pipe or a device.
pub(crate) fn refuse_existing(path: &Path, force: bool) -> Result<(), CliError> {
    let path = path.to_owned();
    match fs::symlink_metadata(&path) {
        Ok(there) if !there.is_file() => Err(CliError::OutputExists { path }),
        Ok(_) if !force => Err(CliError::FileExists { path }),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Refuses a file whose folder does not exist, before minutes of work.
pub(crate) fn check_folder(path: &Path) -> Result<(), CliError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let found = match folder {
        _ if path.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Some(folder) => fs::metadata(folder).map(drop),
        None => Ok(()),
    };
    found.map_err(|source| CliError::File { path: path.to_owned(), source })
}

/// Writes a file atomically: after an error there is no file.
pub(crate) fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), CliError> {
    export::write_file(path, write).map_err(|source| CliError::File { path: path.to_owned(), source })
}

/// Writes a timeline as the page `html` and as the picture `svg`, each if named. Returns the paths of the files.
pub(crate) fn write_timeline(
    timeline: &Timeline,
    html: Option<&Path>,
    svg: Option<&Path>,
) -> Result<Vec<PathBuf>, CliError> {
    if let Some(path) = html {
        write_file(path, |out| export::html(&Page::new(timeline), out))?;
    }
    if let Some(path) = svg {
        write_svg(timeline, path)?;
    }
    Ok([html, svg].into_iter().flatten().map(Path::to_owned).collect())
}

/// Writes a timeline as an SVG picture.
pub(crate) fn write_svg(timeline: &Timeline, path: &Path) -> Result<(), CliError> {
    write_file(path, |out| export::svg(timeline, out))
}

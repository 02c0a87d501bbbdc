//! Where a profile goes.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use oomph_memory::export::{self, Page};
use oomph_trainer::Profile;
use serde::Serialize;

use crate::{error::CliError, output::write_file};

/// What is written, and under which names.
#[derive(Debug)]
pub(super) enum Destination {
    /// All files, in this directory.
    Directory(PathBuf),
    /// All files, in `profiles/<name>` or `profiles/<name>-2` and so on.
    Next(String),
    /// The page alone, to this file.
    Page(PathBuf),
}

/// The files of a profile.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Files {
    pub(super) timeline: PathBuf,
    #[serde(flatten)]
    pub(super) others: Option<Others>,
}

/// Those beside the page.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Others {
    pub(super) snapshot: PathBuf,
    pub(super) trace: PathBuf,
    pub(super) events: PathBuf,
}

const PROFILES: &str = "profiles";
const TIMELINE: &str = "timeline.html";
const SNAPSHOT: &str = "snapshot.pickle";
const TRACE: &str = "trace.json";
const EVENTS: &str = "timeline.jsonl";

impl Destination {
    /// Refuses what would be overwritten, and makes the directory, before there is anything to write: a profile may
    /// take minutes.
    pub(super) fn prepare(&self) -> Result<(), CliError> {
        let directory = match self {
            Self::Directory(path) => {
                let names = [TIMELINE, SNAPSHOT, TRACE, EVENTS].map(|name| path.join(name));
                names.iter().try_for_each(|path| refuse_existing(path))?;
                path
            }
            Self::Next(_) => Path::new(PROFILES),
            Self::Page(path) => {
                refuse_existing(path)?;
                // Of a name alone it is the empty path, which is always there.
                path.parent().unwrap_or(path)
            }
        };
        fs::create_dir_all(directory).map_err(refused(directory))
    }

    /// Writes the measurement with the plan beside it.
    pub(super) fn write(&self, profile: &Profile) -> Result<Files, CliError> {
        let directory = match self {
            Self::Page(path) => {
                // It may have come to be there while the profile was made.
                refuse_existing(path)?;
                write_page(profile, path)?;
                return Ok(Files { timeline: path.clone(), others: None });
            }
            Self::Next(name) => next(name)?,
            Self::Directory(path) => path.clone(),
        };
        let measured: Vec<_> = profile.devices().map(|device| &device.measured).collect();
        // A device and its plan lie below each other.
        let both: Vec<_> = profile.devices().flat_map(|device| [&device.measured, &device.planned]).collect();
        let [timeline, snapshot, trace, events] =
            [TIMELINE, SNAPSHOT, TRACE, EVENTS].map(|name| directory.join(name));
        write_page(profile, &timeline)?;
        write_file(&snapshot, |out| export::snapshot(&measured, out))?;
        write_file(&trace, |out| export::perfetto(&both, out))?;
        write_file(&events, |out| export::json_lines(&measured, out))?;
        Ok(Files { timeline, others: Some(Others { snapshot, trace, events }) })
    }
}

fn refuse_existing(path: &Path) -> Result<(), CliError> {
    if path.exists() { Err(CliError::OutputExists { path: path.to_owned() }) } else { Ok(()) }
}

fn write_page(profile: &Profile, path: &Path) -> Result<(), CliError> {
    let first = Page::new(&profile.first.measured).with_overlay(&profile.first.planned);
    let page =
        profile.others.iter().fold(first, |page, device| page.and(&device.measured, Some(&device.planned)));
    write_file(path, |out| export::html(&page, out))
}

fn refused(path: &Path) -> impl FnOnce(io::Error) -> CliError {
    let path = path.to_owned();
    move |source| CliError::File { path, source }
}

/// Makes the first of `profiles/<name>`, `profiles/<name>-2` … that is not there.
fn next(name: &str) -> Result<PathBuf, CliError> {
    let profiles = Path::new(PROFILES);
    let mut path = profiles.join(name);
    let mut number = 1usize;
    loop {
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                number += 1;
                path = profiles.join(format!("{name}-{number}"));
            }
            Err(error) => return Err(refused(&path)(error)),
        }
    }
}

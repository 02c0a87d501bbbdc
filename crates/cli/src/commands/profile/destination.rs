//! The files of a profile.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use oomph_core::files::Existing;
use oomph_timeline::export::{self, Page};
use oomph_trainer::profile::Profile;
use serde::Serialize;

use super::findings::largest;
use crate::{
    error::CliError,
    output::{check_file, write_file},
};

/// Where a profile is written.
#[derive(Debug)]
pub(super) enum Destination {
    /// All files in this directory.
    Directory(PathBuf),
    /// All files in `profiles/<name>`, or in `profiles/<name>-2` and so on.
    Next(String),
    /// The page and the picture alone, each if named.
    Named { html: Option<PathBuf>, svg: Option<PathBuf> },
}

/// The paths of the written files; as JSON.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Files {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeline: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) svg: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) snapshot: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trace: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) events: Option<PathBuf>,
}

const PROFILES: &str = "profiles";
const TIMELINE: &str = "timeline.html";
const SNAPSHOT: &str = "snapshot.pickle";
const TRACE: &str = "trace.json";
const EVENTS: &str = "timeline.jsonl";

impl Destination {
    /// Refuses to overwrite files and creates the directories, before minutes of profiling.
    pub(super) fn prepare(&self, existing: Existing) -> Result<(), CliError> {
        match self {
            Self::Directory(path) => {
                let names = [TIMELINE, SNAPSHOT, TRACE, EVENTS].map(|name| path.join(name));
                names.iter().try_for_each(|path| check_file(path, existing))?;
                create(path)
            }
            Self::Next(_) => create(Path::new(PROFILES)),
            Self::Named { html, svg } => html.iter().chain(svg).try_for_each(|path| {
                check_file(path, existing)?;
                // The parent of a bare file name is the empty path, which always exists.
                create(path.parent().unwrap_or(path))
            }),
        }
    }

    /// Writes the measurement and the plan.
    pub(super) fn write(&self, profile: &Profile, existing: Existing) -> Result<Files, CliError> {
        let directory = match self {
            Self::Named { html, svg } => {
                html.iter().try_for_each(|path| write_page(profile, path, existing))?;
                let timeline = &largest(profile).measured;
                svg.iter()
                    .try_for_each(|path| write_file(path, existing, |out| export::svg(timeline, out)))?;
                return Ok(Files { timeline: html.clone(), svg: svg.clone(), ..Files::default() });
            }
            Self::Next(name) => next(name)?,
            Self::Directory(path) => path.clone(),
        };
        let measured: Vec<_> = profile.devices().map(|device| &device.measured).collect();
        // The plan of a device follows its measurement.
        let both: Vec<_> = profile.devices().flat_map(|device| [&device.measured, &device.planned]).collect();
        let [timeline, snapshot, trace, events] =
            [TIMELINE, SNAPSHOT, TRACE, EVENTS].map(|name| directory.join(name));
        write_page(profile, &timeline, existing)?;
        write_file(&snapshot, existing, |out| export::snapshot(&measured, out))?;
        write_file(&trace, existing, |out| export::perfetto(&both, out))?;
        write_file(&events, existing, |out| export::json_lines(&measured, out))?;
        let [timeline, snapshot, trace, events] = [timeline, snapshot, trace, events].map(Some);
        Ok(Files { timeline, svg: None, snapshot, trace, events })
    }
}

fn create(directory: &Path) -> Result<(), CliError> {
    fs::create_dir_all(directory).map_err(refused(directory))
}

fn write_page(profile: &Profile, path: &Path, existing: Existing) -> Result<(), CliError> {
    let first = Page::new(&profile.first.measured).with_overlay(&profile.first.planned);
    let page =
        profile.others.iter().fold(first, |page, device| page.and(&device.measured, Some(&device.planned)));
    write_file(path, existing, |out| export::html(&page, out))
}

fn refused(path: &Path) -> impl FnOnce(io::Error) -> CliError {
    let path = path.to_owned();
    move |source| CliError::File { path, source }
}

/// Creates the first of `profiles/<name>`, `profiles/<name>-2` … that does not exist.
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

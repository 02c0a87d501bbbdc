//! Writes a memory timeline as files.

use std::path::{Path, PathBuf};

use oomph_timeline::{
    Timeline,
    export::{self, Page},
};

use crate::{error::CliError, output::write_file};

/// Writes a timeline as the page `html` and as the picture `svg`, each if named. Returns the paths of the files.
pub(crate) fn write(
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

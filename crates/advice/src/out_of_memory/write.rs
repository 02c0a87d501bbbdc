use std::{
    fs, io,
    path::{Path, PathBuf},
};

use oomph_core::files::{Existing, write_file};
use oomph_timeline::{Timeline, export};

use super::report::{OutOfMemoryReport, ReportFiles};

/// Writes the report and the timeline into `directory`, or into `directory-2` and so on if the name is taken. Write
/// errors are noted in the report and do not end it.
pub(super) fn write(report: &mut OutOfMemoryReport, timeline: &Timeline, directory: &Path) {
    let refused = |path: &Path, error: io::Error| format!("`{}` cannot be written: {error}", path.display());
    let made = match make(directory) {
        Ok(made) => made,
        Err(error) => {
            report.not_written = Some(refused(directory, error));
            return;
        }
    };
    let [text, json, page] = ["report.txt", "report.json", "timeline.html"].map(|name| made.join(name));
    // The largest file first: if the disk has no room for it, it may have room for the others.
    let drawn = write_file(&page, Existing::Keep, |out| export::html(&export::Page::new(timeline), out));
    let timeline = drawn.is_ok().then(|| page.clone());
    report.not_written = drawn.err().map(|error| refused(&page, error.into()));
    report.files = Some(ReportFiles { text: text.clone(), json: json.clone(), timeline });
    if let Err(error) = write_words(report, &text, &json) {
        (report.files, report.not_written) = (None, Some(refused(&made, error)));
        // Removes the directory only if it is empty.
        let _ = fs::remove_dir(&made);
    }
}

fn write_words(report: &OutOfMemoryReport, text: &Path, json: &Path) -> io::Result<()> {
    write_file(json, Existing::Keep, |out| {
        serde_json::to_writer_pretty(&mut *out, report)?;
        out.write_all(b"\n")
    })?;
    Ok(write_file(text, Existing::Keep, |out| write!(out, "{}\n\n{report}", report.message))?)
}

/// Creates the first of `directory`, `directory-2` … that does not exist.
fn make(directory: &Path) -> io::Result<PathBuf> {
    if let Some(above) = directory.parent() {
        fs::create_dir_all(above)?;
    }
    let numbered = (2usize..).map(|number| {
        let mut name = directory.as_os_str().to_owned();
        name.push(format!("-{number}"));
        PathBuf::from(name)
    });
    for path in std::iter::once(directory.to_owned()).chain(numbered) {
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    // The iterator of names does not end.
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_taken_gets_a_number() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = folder.path().join("run/out-of-memory");
        let made: Vec<_> = (0..3).map(|_| make(&wanted).unwrap()).collect();
        let names: Vec<_> = made.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["out-of-memory", "out-of-memory-2", "out-of-memory-3"]);
    }
}

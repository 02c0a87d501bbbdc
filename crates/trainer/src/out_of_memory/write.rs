use std::{
    fs, io,
    path::{Path, PathBuf},
};

use oomph_memory::{Timeline, export};

use super::{OutOfMemoryReport, ReportFiles};

const TEXT: &str = "report.txt";
const JSON: &str = "report.json";
const TIMELINE: &str = "timeline.html";

/// Writes the report and the timeline into `directory`, or into `directory-2` and so on where that is taken. What the
/// system refuses is noted in the report: a disk that is full as well is no reason to tell nothing.
pub(super) fn write(report: &mut OutOfMemoryReport, timeline: &Timeline, directory: &Path) {
    let refused = |path: &Path, error: io::Error| format!("`{}` cannot be written: {error}", path.display());
    let made = match make(directory) {
        Ok(made) => made,
        Err(error) => {
            report.not_written = Some(refused(directory, error));
            return;
        }
    };
    let [text, json, page] = [TEXT, JSON, TIMELINE].map(|name| made.join(name));
    // The largest one first: where there is no room for it there may be for the others.
    let drawn = export::write_file(&page, |out| export::html(&export::Page::new(timeline), out));
    let timeline = drawn.is_ok().then(|| page.clone());
    report.not_written = drawn.err().map(|error| refused(&page, error));
    report.files = Some(ReportFiles { text: text.clone(), json: json.clone(), timeline });
    if let Err(error) = write_words(report, &text, &json) {
        (report.files, report.not_written) = (None, Some(refused(&made, error)));
        // An empty directory tells nothing; one that is not empty stays.
        let _ = fs::remove_dir(&made);
    }
}

fn write_words(report: &OutOfMemoryReport, text: &Path, json: &Path) -> io::Result<()> {
    export::write_file(json, |out| {
        serde_json::to_writer_pretty(&mut *out, report)?;
        out.write_all(b"\n")
    })?;
    export::write_file(text, |out| write!(out, "{}\n\n{report}", report.message))
}

/// Makes the first of `directory`, `directory-2` … that is not there.
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
    // The names are endless.
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

//! The metric files of a run: lines of time, value and step.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

use oomph_core::{open_file_with, read_file};

use crate::state::{StateError, write_file};

/// The folder of a run's metrics.
#[derive(Debug)]
pub(super) struct Metrics {
    folder: PathBuf,
    /// Files with lines that may not be on the disk yet.
    unflushed: BTreeSet<PathBuf>,
}

impl Metrics {
    /// Opens the folder, and removes lines after `first_step`, which the run repeats, and lines that a crash left incomplete.
    pub(super) fn open(folder: PathBuf, first_step: usize) -> Result<Self, StateError> {
        fs::create_dir_all(&folder).map_err(StateError::io("create", &folder))?;
        cut_files(&folder, first_step)?;
        Ok(Self { folder, unflushed: BTreeSet::new() })
    }

    /// Appends a line to the file of a metric.
    pub(super) fn append(&mut self, tag: &str, value: f64, step: usize, now: u64) -> Result<(), StateError> {
        let path = self.folder.join(tag);
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).map_err(StateError::io("create", folder))?;
        let mut file = open_to_append(&path)?;
        let length = file.metadata().map_err(StateError::io("read", &path))?.len();
        if let Err(error) = file.write_all(format!("{now} {value} {step}\n").as_bytes()) {
            // The disk may be full. MLflow refuses a run with half a line.
            let _ = file.set_len(length);
            return Err(StateError::io("write", &path)(error));
        }
        self.unflushed.insert(path);
        Ok(())
    }

    /// Flushes the files to the disk.
    pub(super) fn flush(&mut self) -> Result<(), StateError> {
        for path in std::mem::take(&mut self.unflushed) {
            let file = open_to_append(&path)?;
            file.sync_data().map_err(StateError::io("flush", &path))?;
        }
        Ok(())
    }
}

fn open_to_append(path: &Path) -> Result<File, StateError> {
    open_file_with(OpenOptions::new().create(true).append(true), path).map_err(StateError::io("open", path))
}

fn cut_files(folder: &Path, first_step: usize) -> Result<(), StateError> {
    for entry in fs::read_dir(folder).map_err(StateError::io("read", folder))? {
        let path = entry.map_err(StateError::io("read", folder))?.path();
        if path.is_dir() {
            cut_files(&path, first_step)?;
        } else {
            cut(&path, first_step)?;
        }
    }
    Ok(())
}

fn cut(path: &Path, first_step: usize) -> Result<(), StateError> {
    let bytes = read_file(path).map_err(StateError::io("read", path))?;
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let kept: Vec<u8> = lines
        .filter(|line| step_of(line).is_some_and(|step| step <= first_step))
        .flatten()
        .copied()
        .collect();
    if kept == bytes {
        return Ok(());
    }
    if kept.is_empty() {
        // MLflow refuses a metric without lines.
        return fs::remove_file(path).map_err(StateError::io("remove", path));
    }
    write_file(path, &kept)
}

/// The step of a complete line.
fn step_of(line: &[u8]) -> Option<usize> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let mut fields = line.split(' ');
    let (time, value, step) = (fields.next()?, fields.next()?, fields.next()?);
    let is_sound = time.parse::<u64>().is_ok() && value.parse::<f64>().is_ok() && fields.next().is_none();
    step.parse().ok().filter(|_| is_sound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_run_repeats_no_step_and_mends_what_a_crash_left() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let loss = folder.path().join("loss/train");
        let mut metrics = Metrics::open(folder.path().to_owned(), 0).expect("a folder");
        for step in [2, 4, 6] {
            metrics.append("loss/train", 1.0 / step as f64, step, 17).expect("a line");
        }
        metrics.append("loss/eval", 0.5, 6, 18).expect("a line");
        metrics.flush().expect("flushed files");
        let mut torn = fs::read(&loss).expect("the file");
        torn.extend(b"\0\0\0\n19 0.1");
        fs::write(&loss, torn).expect("a file");
        let mut metrics = Metrics::open(folder.path().to_owned(), 4).expect("a folder");
        assert!(!folder.path().join("loss/eval").exists());
        metrics.append("loss/train", f64::NAN, 5, 20).expect("a line");
        let text = fs::read_to_string(&loss).expect("the file");
        assert_eq!(text, "17 0.5 2\n17 0.25 4\n20 NaN 5\n");
    }
}

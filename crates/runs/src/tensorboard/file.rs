use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{Histogram, frame, message::What};
use crate::{
    event::Event,
    run::{RunError, host_name},
    scalars::scalars,
    state::StateError,
};

/// The prefix of event file names that TensorBoard looks for.
const PREFIX: &str = "events.out.tfevents.";

/// The event file that this process writes.
///
/// Each process writes its own file, record by record. A killed process leaves at most one incomplete last record, which
/// readers skip.
#[derive(Debug)]
pub struct EventFile {
    path: PathBuf,
    file: File,
    /// Bytes of whole records.
    length: u64,
}

impl EventFile {
    /// Begins a new file in a run directory that this process has locked. Records of earlier files after `first_step` become
    /// void: the run repeats those steps.
    pub fn create(directory: &Path, first_step: usize) -> Result<Self, RunError> {
        let earlier = newest(directory)?;
        // Readers sort the files by name.
        let time = earlier.map_or(0, |time| time.saturating_add(1)).max(wall_time() as u64);
        let path = directory.join(format!("{PREFIX}{time:010}.{}", host_name()));
        let file = OpenOptions::new()
            .create_new(true)
            .append(true)
            .open(&path)
            .map_err(StateError::io("create", &path))?;
        let mut events = Self { path, file, length: 0 };
        events.write(0, [What::Version])?;
        // The first file needs a start too: for readers, a restart is a start after another start.
        events.write(first_step + 1, [What::Start])?;
        Ok(events)
    }

    /// Writes the scalars of an event, if it has any.
    pub fn event(&mut self, event: &Event) -> Result<(), RunError> {
        match scalars(event) {
            Some((step, scalars)) => self.write(step, [What::Scalars(scalars)]),
            None => Ok(()),
        }
    }

    /// Writes histograms by tag.
    pub fn histograms(
        &mut self,
        step: usize,
        histograms: impl IntoIterator<Item = (String, Histogram)>,
    ) -> Result<(), RunError> {
        self.write(step, histograms.into_iter().map(|(tag, histogram)| What::Histogram(tag, histogram)))
    }

    /// Flushes the file to the disk.
    pub fn flush(&self) -> Result<(), RunError> {
        Ok(self.file.sync_data().map_err(StateError::io("flush", &self.path))?)
    }

    fn write(&mut self, step: usize, records: impl IntoIterator<Item = What>) -> Result<(), RunError> {
        let wall_time = wall_time();
        let mut bytes = Vec::new();
        for what in records {
            frame::append(&mut bytes, &what.encode(wall_time, step));
        }
        if let Err(error) = self.file.write_all(&bytes) {
            // The disk may be full. Half a record would hide all later records.
            let _ = self.file.set_len(self.length);
            return Err(StateError::io("write", &self.path)(error).into());
        }
        self.length += bytes.len() as u64;
        Ok(())
    }
}

/// The time in the name of the newest event file.
fn newest(directory: &Path) -> Result<Option<u64>, RunError> {
    let entries = fs::read_dir(directory).map_err(StateError::io("read", directory))?;
    let time = |name: &str| name.strip_prefix(PREFIX)?.split('.').next()?.parse::<u64>().ok();
    Ok(entries.flatten().filter_map(|entry| time(entry.file_name().to_str()?)).max())
}

/// Seconds since 1970.
fn wall_time() -> f64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |time| time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).expect("a directory").flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_of_one_second_are_in_the_order_in_which_they_were_begun() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for first_step in [0, 300, 7] {
            let file = EventFile::create(directory.path(), first_step).expect("a new file");
            let last = names(directory.path()).pop().expect("a file");
            assert_eq!(directory.path().join(last), file.path);
        }
        assert_eq!(names(directory.path()).len(), 3);
    }

    #[test]
    fn a_time_in_the_future_is_followed_by_a_later_one() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        fs::write(directory.path().join("events.out.tfevents.4000000000.other"), "").expect("a file");
        let file = EventFile::create(directory.path(), 0).expect("a new file");
        let name = file.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        assert!(name.starts_with("events.out.tfevents.4000000001."), "{name}");
    }
}

use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use oomph_core::{
    open_file, open_file_with,
    system::{FileIdentity, read_exact_at, sync_directory},
};

use super::{Lines, Record, lines::Next};
use crate::{
    error::{StudyError, io_error},
    lock::Guard,
};

/// How many bytes before the place that was read are compared, to notice a file that was written anew.
const MARK: usize = 64;

/// A journal on disk, and how far it was read.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    /// Where the next unread line starts.
    offset: u64,
    /// How many records lie before.
    records: u64,
    /// The file that was read.
    identity: Option<FileIdentity>,
    /// The bytes right before `offset`.
    mark: Vec<u8>,
}

impl Log {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), offset: 0, records: 0, identity: None, mark: Vec::new() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the records that were not read yet, and returns how many bytes follow the last complete line.
    ///
    /// What follows it is not touched: another process may be writing it.
    ///
    /// # Errors
    /// The file cannot be read, a line is no record, or the file is not the one that was read before.
    pub(crate) fn read(
        &mut self,
        apply: impl FnMut(Record) -> Result<(), String>,
    ) -> Result<u64, StudyError> {
        let mut file = open_file(&self.path).map_err(io_error("read", &self.path))?;
        self.check(&file)?;
        file.seek(SeekFrom::Start(self.offset)).map_err(io_error("read", &self.path))?;
        self.read_from(file, apply)
    }

    /// Reads the records of `from`, which starts where reading stopped. Otherwise as [`read`](Self::read).
    pub(crate) fn read_from(
        &mut self,
        from: impl Read,
        mut apply: impl FnMut(Record) -> Result<(), String>,
    ) -> Result<u64, StudyError> {
        let mut lines = Lines::new(from);
        // Blank lines at the end are not read: they are repaired before the next record.
        let mut blank = 0;
        loop {
            match lines.next().map_err(io_error("read", &self.path))? {
                Next::End(rest) => return Ok(blank + rest),
                Next::TooLong => {
                    return Err(self.damaged(format!(
                        "it is longer than {} bytes",
                        oomph_core::grouped(super::LONGEST_LINE as u64)
                    )));
                }
                Next::Line(line, length) if line.trim_ascii().is_empty() => blank += length,
                Next::Line(..) if blank > 0 => {
                    return Err(self.damaged("the line is blank, which Optuna does not accept either".into()));
                }
                Next::Line(line, length) => {
                    let record = std::str::from_utf8(&line).map_err(|_| "it is not UTF-8".to_owned());
                    record
                        .and_then(Record::parse)
                        .and_then(&mut apply)
                        .map_err(|reason| self.damaged(reason))?;
                    self.passed(&line, length);
                }
            }
        }
    }

    fn damaged(&self, reason: String) -> StudyError {
        StudyError::Damaged { path: self.path.clone(), line: self.records + 1, reason }
    }

    /// Notes that a line was read.
    fn passed(&mut self, line: &[u8], length: u64) {
        self.offset += length;
        self.records += 1;
        self.mark.clear();
        let from = line.len().saturating_sub(MARK);
        self.mark.extend(line.get(from..).unwrap_or_default());
        // Without its end: that may be two bytes.
        let end = length as usize - line.len();
        self.mark.extend(b"\r\n".get(2usize.saturating_sub(end)..).unwrap_or_default());
    }

    /// Checks that what was read is still there.
    fn check(&mut self, file: &File) -> Result<(), StudyError> {
        let found = file.metadata().map_err(io_error("read", &self.path))?;
        let identity = FileIdentity::of(file).map_err(io_error("read", &self.path))?;
        let replaced =
            |change| StudyError::Replaced { path: self.path.clone(), change, records: self.records };
        if self.identity.is_some_and(|known| known != identity) {
            return Err(replaced("replaced by another file"));
        }
        if found.len() < self.offset {
            return Err(replaced("shortened"));
        }
        let mut there = vec![0; self.mark.len()];
        let from = self.offset - self.mark.len() as u64;
        read_exact_at(file, &mut there, from).map_err(io_error("read", &self.path))?;
        if there != self.mark {
            return Err(replaced("overwritten"));
        }
        self.identity = Some(identity);
        Ok(())
    }

    /// Creates the file if it is missing, and flushes its name to the disk.
    pub(crate) fn create(&self) -> Result<(), StudyError> {
        if self.path.exists() {
            return Ok(());
        }
        self.open_to_append()?;
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        sync_directory(folder).map_err(io_error("create", &self.path))
    }

    fn open_to_append(&self) -> Result<File, StudyError> {
        open_file_with(OpenOptions::new().create(true).read(true).append(true), &self.path)
            .map_err(io_error("write", &self.path))
    }

    /// Appends lines under the lock, and flushes them to the disk. The caller has read up to the end under the same lock,
    /// and `tail` bytes follow the last complete line: they are removed first.
    ///
    /// If it fails, the file is as before, without the tail.
    ///
    /// # Errors
    /// The lock was lost, or the file cannot be written, or what was written is not there afterwards.
    pub(crate) fn append(&mut self, guard: &Guard, lines: &str, tail: u64) -> Result<(), StudyError> {
        let mut file = self.open_to_append()?;
        self.check(&file)?;
        let lost = || StudyError::LockLost { path: self.path.clone() };
        if !guard.is_held() {
            return Err(lost());
        }
        if tail > 0 {
            file.set_len(self.offset).map_err(io_error("repair the end of", &self.path))?;
        }
        // The last moment to notice that this process was stopped for too long. If it is stopped right here, what it
        // writes still lands whole, behind the records of others.
        if !guard.is_held() {
            return Err(lost());
        }
        let written = file.write_all(lines.as_bytes()).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // Half a transaction is removed. Without the lock others may have written behind it: they repair it.
            if guard.is_held() {
                file.set_len(self.offset).map_err(io_error("repair the end of", &self.path))?;
            }
            return Err(io_error("write", &self.path)(error));
        }
        let mut there = vec![0; lines.len()];
        read_exact_at(&file, &mut there, self.offset).map_err(io_error("read", &self.path))?;
        // Where nobody wrote in between, the records follow what they were decided on, whoever holds the lock by now.
        if there == lines.as_bytes() { Ok(()) } else { Err(lost()) }
    }
}

//! A line for each call that matters, with the seconds since the first.

use std::{
    fmt,
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// The log, if one was asked for.
#[derive(Debug)]
pub(crate) struct Log {
    file: Option<Mutex<BufWriter<File>>>,
    start: Instant,
}

impl Log {
    /// Opens the file; a log that cannot be opened is told on standard error.
    pub(crate) fn open(path: Option<&Path>) -> Self {
        let open = |path: &Path| {
            File::create(path)
                .map_err(|error| eprintln!("cuda-sim: CUDA_SIM_LOG: `{}`: {error}", path.display()))
                .ok()
        };
        let file = path.and_then(open).map(|file| Mutex::new(BufWriter::new(file)));
        Self { file, start: Instant::now() }
    }

    /// Adds a line.
    pub(crate) fn line(&self, line: fmt::Arguments<'_>) {
        let Some(file) = &self.file else { return };
        let seconds = self.start.elapsed().as_secs_f64();
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk must not end the program that is watched.
        let _ = writeln!(file, "{seconds:.6} {line}");
    }

    /// Writes what is buffered.
    pub(crate) fn flush(&self) {
        if let Some(file) = &self.file {
            let _ = file.lock().unwrap_or_else(PoisonError::into_inner).flush();
        }
    }
}

use std::{
    fs::File,
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
};

use oomph_config::DeviceName;
use oomph_memory::{
    Timeline, export,
    record::{self, Notes},
};
use oomph_model::Stages;

use crate::{Session, Stepper, TrainError, held::Held, watch};

/// The newest allocations of a training, with what is known of them: to be looked at when memory runs out, or when
/// somebody asks.
#[derive(Debug)]
pub(crate) struct MemoryLog {
    held: Held,
    notes: Notes,
}

impl MemoryLog {
    /// Makes the stepper, and records from before, where the configuration and the device let it: what it makes shall
    /// be known.
    pub(crate) fn start(session: &Session) -> Result<(Stepper, Option<Self>), TrainError> {
        let config = &session.config;
        let is_cpu = config.device.devices[0] == DeviceName::Cpu;
        if config.memory.record == 0 || !is_cpu || !oomph_memory::is_installed() {
            return Ok((Stepper::new(session)?, None));
        }
        record::start(config.memory.record);
        let mut stepper = Stepper::new(session)?;
        let mut held = Held::default();
        watch::parameters(&mut held, &stepper.model);
        stepper.watch(Some(Box::new(held.clone())));
        let notes = notes(session, &stepper.model);
        Ok((stepper, Some(Self { held, notes })))
    }

    /// What the recording shows now.
    fn timeline(&self) -> Timeline {
        record::dump().timeline(&Notes { held: self.held.notes(), ..self.notes.clone() })
    }

    /// Writes it as a page of `directory`, beside its final name first.
    pub(crate) fn write_page(&self, directory: &Path, name: &str) -> io::Result<PathBuf> {
        let path = directory.join(name);
        let unfinished = directory.join(format!("{name}.part"));
        let write = || {
            let mut file = BufWriter::new(File::create(&unfinished)?);
            export::html(&export::Page::new(&self.timeline()), &mut file)?;
            file.flush()?;
            std::fs::rename(&unfinished, &path)
        };
        match write() {
            Ok(()) => Ok(path),
            Err(error) => {
                // Half a page is of no use; where it cannot be removed either, the first error is the one to tell.
                let _ = std::fs::remove_file(&unfinished);
                Err(error)
            }
        }
    }
}

impl Drop for MemoryLog {
    fn drop(&mut self) {
        record::stop();
    }
}

/// What is the same for all recordings of a session.
pub(crate) fn notes(session: &Session, model: &Stages) -> Notes {
    Notes {
        title: format!("{} · batch {}", session.architecture.name(), session.config.train.batch),
        device: session.config.device.devices[0].to_string(),
        limit_bytes: session.limit_bytes,
        stages: model.names().map(str::to_owned).collect(),
        held: Vec::new(),
    }
}

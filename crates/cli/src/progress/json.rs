use std::io;

use oomph_runs::Event;
use oomph_trainer::{Stop, StopReason};

use crate::{error::CliError, output};

/// Events as JSON lines on stdout.
pub(super) struct JsonLines {
    stop: Stop,
    /// The first write error, after which nothing is written.
    pub(super) failed: Option<io::Error>,
}

impl JsonLines {
    pub(super) fn new(stop: &Stop) -> Self {
        Self { stop: stop.clone(), failed: None }
    }

    pub(super) fn event(&mut self, event: &Event) {
        if self.failed.is_some() {
            return;
        }
        if let Err(CliError::Output(error)) = output::print_json(event) {
            // The reader is gone. The training stops and saves a checkpoint.
            self.failed = Some(error);
            self.stop.request(StopReason::Interrupt);
        }
    }
}

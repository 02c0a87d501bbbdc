use std::io;

use oomph_trainer::{Event, Stop, StopReason};

use crate::{error::CliError, output};

/// Events as JSON lines on standard output.
pub(super) struct JsonLines {
    stop: Stop,
    /// Why nothing can be written any more.
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
            // A program whose reader is gone ends; this one keeps what it has learned.
            self.failed = Some(error);
            self.stop.request(StopReason::Interrupt);
        }
    }
}

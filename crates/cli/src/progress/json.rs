use oomph_trainer::{Event, Stop, StopReason};

use crate::{notices::Notices, output};

/// Events as JSON lines on standard output.
pub(super) struct JsonLines {
    stop: Stop,
    closed: bool,
}

impl JsonLines {
    pub(super) fn new(stop: &Stop) -> Self {
        Self { stop: stop.clone(), closed: false }
    }

    pub(super) fn event(&mut self, event: &Event) {
        if self.closed {
            return;
        }
        if let Err(error) = output::print_json(event) {
            self.closed = true;
            // A program whose reader is gone ends; this one keeps what it has learned.
            Notices::default()
                .warning(format_args!("{error}, so training ends after this step and is saved"));
            self.stop.request(StopReason::Interrupt);
        }
    }
}

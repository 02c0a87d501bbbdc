//! Shows the progress of commands.

mod bars;
mod download;
mod lines;
mod probe;
mod profile;
mod sign_of_life;
mod style;
mod tune;
mod work;

use std::io;

use oomph_runs::{Event, Observer, Tick};
use oomph_trainer::{Stop, StopReason};

use crate::{notices::Notices, stream};

use self::{bars::Bars, lines::Lines};
pub use self::{
    download::DownloadBar,
    probe::ProbeBar,
    profile::ProfileBar,
    style::Style,
    tune::TuneProgress,
    work::{WaitingLine, WorkBar},
};

/// Shows the events of a training or an evaluation.
pub struct Progress(Shown);

enum Shown {
    Json(JsonLines),
    Quiet,
    Bars(Bars),
    Lines(Lines),
}

impl Progress {
    /// Progress in a style. `stop` stops the training if the reader of its JSON lines is gone.
    pub fn new(style: Style, stop: &Stop) -> Self {
        Self(match style {
            Style::Json | Style::QuietJson => {
                let is_quiet = style == Style::QuietJson;
                Shown::Json(JsonLines { stop: stop.clone(), is_quiet, failed: None })
            }
            Style::Quiet => Shown::Quiet,
            Style::Bars => Shown::Bars(Bars::new()),
            Style::Lines => Shown::Lines(Lines::new()),
        })
    }

    /// Writes lines beside the progress.
    pub fn notices(&self) -> Notices {
        match &self.0 {
            Shown::Bars(bars) => bars.notices(),
            _ => Notices::default(),
        }
    }

    /// Shows a warning.
    pub fn warn(&mut self, message: String) {
        self.event(&Event::Warning { message });
    }

    /// Erases the bars and returns the writer of further lines.
    ///
    /// # Errors
    /// The first failure to write an event.
    pub fn finish(self) -> Result<Notices, io::Error> {
        match self.0 {
            Shown::Json(JsonLines { failed: Some(error), .. }) => Err(error),
            _ => Ok(Notices::default()),
        }
    }
}

impl Observer for Progress {
    fn event(&mut self, event: &Event) {
        match (&mut self.0, event) {
            (Shown::Json(lines), event) => lines.event(event),
            (Shown::Quiet, Event::Warning { message }) => Notices::default().warning(message),
            (Shown::Quiet, Event::Adapted(adapted)) => Notices::default().warning(adapted),
            (Shown::Quiet, _) => {}
            (Shown::Bars(bars), event) => bars.event(event),
            (Shown::Lines(lines), event) => lines.event(event),
        }
    }

    fn tick(&mut self, tick: Tick) {
        match &mut self.0 {
            Shown::Bars(bars) => bars.tick(tick),
            Shown::Lines(lines) => lines.tick(tick),
            Shown::Json(_) | Shown::Quiet => {}
        }
    }
}

/// Events as JSON lines on stdout.
struct JsonLines {
    stop: Stop,
    /// Whether only warnings and the end are written.
    is_quiet: bool,
    /// The first write error, after which nothing is written.
    failed: Option<io::Error>,
}

impl JsonLines {
    fn event(&mut self, event: &Event) {
        let is_said = matches!(event, Event::Warning { .. } | Event::Adapted(_) | Event::Done(_));
        if self.failed.is_some() || self.is_quiet && !is_said {
            return;
        }
        if let Err(error) = stream::print_json(event) {
            // The reader is gone. The training stops and saves a checkpoint.
            self.failed = Some(error);
            self.stop.request(StopReason::Interrupt);
        }
    }
}

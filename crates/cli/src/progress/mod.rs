//! Shows the progress of commands.

mod bars;
mod download;
mod eta;
mod header;
mod json;
mod lines;
mod probe;
mod profile;
mod style;

use oomph_runs::{Event, Observer, Tick};
use oomph_trainer::Stop;

use crate::{error::CliError, notices::Notices};

use self::{bars::Bars, json::JsonLines, lines::Lines};
pub(crate) use self::{download::DownloadBar, probe::ProbeBar, profile::ProfileBar, style::Style};

/// Shows the events of a training or an evaluation.
pub(crate) struct Progress(Shown);

enum Shown {
    Json(JsonLines),
    Quiet(Notices),
    Bars(Bars),
    Lines(Lines),
}

impl Progress {
    /// Progress in a style. `stop` stops the training if the reader of its JSON lines is gone.
    pub(crate) fn new(style: Style, stop: &Stop) -> Self {
        Self(match style {
            Style::Json => Shown::Json(JsonLines::new(stop)),
            Style::Quiet => Shown::Quiet(Notices::default()),
            Style::Bars => Shown::Bars(Bars::new()),
            Style::Lines => Shown::Lines(Lines::default()),
        })
    }

    /// Writes lines beside the progress.
    pub(crate) fn notices(&self) -> Notices {
        match &self.0 {
            Shown::Bars(bars) => bars.notices(),
            Shown::Quiet(notices) => notices.clone(),
            Shown::Json(_) | Shown::Lines(_) => Notices::default(),
        }
    }

    pub(crate) fn warn(&mut self, message: String) {
        self.event(&Event::Warning { message });
    }

    /// Erases the bars and returns the writer of further lines.
    ///
    /// # Errors
    /// [`CliError::EventsUnread`] if events could not be written.
    pub(crate) fn finish(self) -> Result<Notices, CliError> {
        match self.0 {
            Shown::Json(JsonLines { failed: Some(error), .. }) => Err(CliError::EventsUnread(error)),
            _ => Ok(Notices::default()),
        }
    }
}

impl Observer for Progress {
    fn event(&mut self, event: &Event) {
        match (&mut self.0, event) {
            (Shown::Json(lines), event) => lines.event(event),
            (Shown::Quiet(notices), Event::Warning { message }) => notices.warning(message),
            (Shown::Quiet(notices), Event::Adapted(adapted)) => notices.warning(adapted),
            (Shown::Quiet(_), _) => {}
            (Shown::Bars(bars), event) => bars.event(event),
            (Shown::Lines(lines), event) => lines.event(event),
        }
    }

    fn tick(&mut self, tick: Tick) {
        if let Shown::Bars(bars) = &mut self.0 {
            bars.tick(tick);
        }
    }
}

//! What a training shows while it runs.

mod bars;
mod download;
mod eta;
mod header;
mod json;
mod lines;
mod probe;
mod profile;

use std::io::IsTerminal;

use oomph_trainer::{Event, Observer, Stop, Tick};

use crate::{error::CliError, notices::Notices};

use self::{bars::Bars, json::JsonLines, lines::Lines};
pub(crate) use self::{download::DownloadBar, probe::ProbeBar, profile::ProfileBar};

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Events as JSON lines on standard output.
    Json,
    /// Warnings only.
    Quiet,
    /// Bars on a terminal.
    Bars,
    /// Plain lines on standard error.
    Lines,
}

impl Style {
    pub(crate) fn choose(json: bool, quiet: bool) -> Self {
        // A dumb terminal cannot go back to a line that it has written.
        let draws =
            std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        match () {
            () if json => Self::Json,
            () if quiet => Self::Quiet,
            () if draws => Self::Bars,
            () => Self::Lines,
        }
    }

    /// Whether it says more than was asked for.
    pub(crate) fn talks(self) -> bool {
        matches!(self, Self::Bars | Self::Lines)
    }
}

/// Shows what happens in one of the styles.
pub(crate) struct Progress(Shown);

enum Shown {
    Json(JsonLines),
    Quiet(Notices),
    Bars(Bars),
    Lines(Lines),
}

impl Progress {
    /// `stop` is asked to end the training where nobody is left to read it.
    pub(crate) fn new(style: Style, stop: &Stop) -> Self {
        Self(match style {
            Style::Json => Shown::Json(JsonLines::new(stop)),
            Style::Quiet => Shown::Quiet(Notices::default()),
            Style::Bars => Shown::Bars(Bars::new()),
            Style::Lines => Shown::Lines(Lines::default()),
        })
    }

    /// For lines beside the progress.
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

    /// Takes away what is drawn; lines can be written from then on.
    ///
    /// # Errors
    /// [`CliError::EventsUnread`] where events could not be written.
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

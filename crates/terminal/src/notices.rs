//! Lines on stderr.

use std::fmt::Display;

use console::style;
use indicatif::MultiProgress;
use oomph_core::printable;

use crate::stream;

/// Writes lines to stderr, above the progress bars if there are any.
///
/// Clones share the bars, so other threads can write while a bar is drawn.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    bars: Option<MultiProgress>,
}

impl Notices {
    /// Writes lines above `bars`.
    pub fn above(bars: &MultiProgress) -> Self {
        Self { bars: Some(bars.clone()) }
    }

    /// Writes a line.
    pub fn line(&self, text: impl AsRef<str>) {
        match &self.bars {
            // A closed terminal is no error here.
            Some(bars) => drop(bars.println(stream::shown(text.as_ref()))),
            None => stream::write_line(text.as_ref()),
        }
    }

    /// Writes a warning.
    pub fn warning(&self, message: impl Display) {
        let message = printable(message);
        self.line(format!("{} {message}", style("warning:").for_stderr().yellow().bold()));
    }

    /// Writes a note.
    pub fn note(&self, message: impl Display) {
        let message = printable(message);
        self.line(format!("{} {message}", style("note:").for_stderr().cyan().bold()));
    }

    /// Notes why there is no GPU.
    pub fn no_gpu(&self, reason: impl Display, hint: Option<impl Display>) {
        self.note(format!("no GPU: {reason}"));
        if let Some(hint) = hint {
            self.line(format!("      {}", printable(hint)));
        }
    }
}

//! Lines on stderr.

use std::{
    fmt::Display,
    io::{self, Write},
};

use console::style;
use indicatif::MultiProgress;

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
            Some(bars) => drop(bars.println(text)),
            None => write_line(text.as_ref()),
        }
    }

    /// Writes a warning.
    pub fn warning(&self, message: impl Display) {
        let message = printable(&message.to_string());
        self.line(format!("{} {message}", style("warning:").for_stderr().yellow().bold()));
    }

    /// Writes a note.
    pub fn note(&self, message: impl Display) {
        self.line(format!("{} {message}", style("note:").for_stderr().cyan().bold()));
    }

    /// Notes why there is no GPU.
    pub fn no_gpu(&self, reason: impl Display, hint: Option<impl Display>) {
        self.note(format!("no GPU: {reason}"));
        if let Some(hint) = hint {
            self.line(format!("      {hint}"));
        }
    }
}

/// The text with control characters replaced by U+FFFD: file names may contain some.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Writes a line to stderr. Unlike `eprintln!` it does not panic if stderr is closed.
pub fn write_line(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

use crate::stream;

/// How a command shows progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Events as JSON lines on stdout.
    Json,
    /// Warnings and the end of a training as JSON lines on stdout.
    QuietJson,
    /// Warnings alone.
    Quiet,
    /// Bars on a terminal.
    Bars,
    /// Plain lines on stderr.
    Lines,
}

impl Style {
    /// The style of a command with these options, on this terminal.
    pub fn choose(json: bool, quiet: bool) -> Self {
        // A dumb terminal cannot move the cursor up.
        let draws = stream::is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        match () {
            () if json && quiet => Self::QuietJson,
            () if json => Self::Json,
            () if quiet => Self::Quiet,
            () if draws => Self::Bars,
            () => Self::Lines,
        }
    }

    /// Whether it shows progress and notices besides warnings.
    pub fn is_verbose(self) -> bool {
        matches!(self, Self::Bars | Self::Lines)
    }
}

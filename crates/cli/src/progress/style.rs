use std::io::IsTerminal;

/// How a command shows progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Events as JSON lines on stdout.
    Json,
    /// Warnings alone.
    Quiet,
    /// Bars on a terminal.
    Bars,
    /// Plain lines on stderr.
    Lines,
}

impl Style {
    pub(crate) fn choose(json: bool, quiet: bool) -> Self {
        // A dumb terminal cannot move the cursor up.
        let draws =
            std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        match () {
            () if json => Self::Json,
            () if quiet => Self::Quiet,
            () if draws => Self::Bars,
            () => Self::Lines,
        }
    }

    /// Whether it shows progress and notices besides warnings.
    pub(crate) fn is_verbose(self) -> bool {
        matches!(self, Self::Bars | Self::Lines)
    }
}

use std::path::PathBuf;

use crate::{
    error::ConfigError,
    interval::{Interval, Units},
    precedence::Rule,
    section::Section,
};

/// `[run]`: what a run leaves on disk and says while it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// `directory`: where metrics and checkpoints go; by default `runs/` and the name of the config.
    pub directory: Option<PathBuf>,
    /// `save_every`: a checkpoint every so many epochs, steps or minutes, or `never`; default `1 epoch`.
    pub save_every: Interval,
    /// `keep_last`: the last so many checkpoints are kept, besides the best; at least 1, default 3.
    pub keep_last: usize,
    /// `log_every`: optimizer steps between two lines of metrics, which is when the loss is read from the device; at
    /// least 1, default 10.
    pub log_every: usize,
    /// `tensorboard`: whether an event file for TensorBoard is written beside the metrics; default `true`.
    pub tensorboard: bool,
    /// `histograms`: how often the distributions of parameters and gradients go into the event file: in epochs or steps,
    /// or `never`; default `never`.
    pub histograms: Interval,
}

const HISTOGRAMS_NEED_EVENT_FILES: Rule = Rule {
    says: "histograms are written into event files",
    fix: "set `run.tensorboard` to `true`, or `run.histograms` to `never`",
};

impl Run {
    pub(crate) fn read(section: &Section) -> Result<Self, ConfigError> {
        let directory = section.optional_string("directory")?;
        if directory.as_ref().is_some_and(|path| path.is_empty() || path.contains('\0')) {
            return Err(section.invalid("directory", "a path"));
        }
        let save_every = section.interval("save_every", Interval::Epochs(1), Units::ProgressOrTime)?;
        let keep_last = section.integer("keep_last", 3, 1..)?;
        let log_every = section.integer("log_every", 10, 1..)?;
        let histograms = || section.interval("histograms", Interval::Never, Units::Progress);
        let tensorboard = section.boolean("tensorboard", true)?;
        if !tensorboard && histograms()? != Interval::Never {
            section.yield_to("histograms", "tensorboard", &HISTOGRAMS_NEED_EVENT_FILES)?;
        }
        Ok(Self {
            directory: directory.map(PathBuf::from),
            save_every,
            keep_last,
            log_every,
            tensorboard,
            histograms: histograms()?,
        })
    }
}

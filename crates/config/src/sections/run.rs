//! `[run]`.

use std::path::PathBuf;

use crate::{
    error::ConfigError,
    interval::{Interval, IntervalUnits},
    precedence::Rule,
    section::{Refused, Section},
    value::Value,
};

/// `[run]`: the output of a run on disk and in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// `directory`: the folder of metrics and checkpoints; by default `runs/` and the name of the config.
    pub directory: Option<PathBuf>,
    /// `save_every`: the interval of checkpoints in epochs, steps or minutes, or `never`; default `1 epoch`.
    pub save_every: Interval,
    /// `keep_last`: the number of recent checkpoints kept besides the best one; at least 1, default 3.
    pub keep_last: usize,
    /// `log_every`: optimizer steps between two lines of metrics; the loss is read from the device for each line. At
    /// least 1, default 10.
    pub log_every: usize,
    /// `tensorboard`: whether the run writes an event file for TensorBoard; default `true`.
    pub tensorboard: bool,
    /// `mlflow`: the folder of the MLflow file store that the run is written to; `true` stands for `mlruns`; default
    /// `false`, which writes none.
    pub mlflow: Option<PathBuf>,
    /// `histograms`: the interval at which histograms of parameters and gradients go into the event file, in epochs or
    /// steps, or `never`; default `never`.
    pub histograms: Interval,
}

const HISTOGRAMS_NEED_EVENT_FILES: Rule = Rule {
    says: "histograms need an event file",
    fix: "set `run.tensorboard` to `true`, or `run.histograms` to `never`",
};

impl Run {
    pub(crate) fn read(section: &Section) -> Result<Self, ConfigError> {
        let directory = section.optional_string("directory")?;
        if directory.as_ref().is_some_and(|path| path.is_empty() || path.contains('\0')) {
            return Err(section.invalid("directory", "a path"));
        }
        let save_every = Interval::Epochs(1).read(section, "save_every", IntervalUnits::ProgressOrTime)?;
        let keep_last = section.integer("keep_last", 3, 1..)?;
        if save_every == Interval::Never {
            let because = "`run.save_every` is `never`, so a training saves once, when it ends";
            section.has_no_effect("keep_last", because);
        }
        let log_every = section.integer("log_every", 10, 1..)?;
        let histograms = || Interval::Never.read(section, "histograms", IntervalUnits::Progress);
        let tensorboard = section.boolean("tensorboard", true)?;
        if !tensorboard && histograms()? != Interval::Never {
            section.ledger.yield_to("histograms", "tensorboard", &HISTOGRAMS_NEED_EVENT_FILES)?;
        }
        Ok(Self {
            directory: directory.map(PathBuf::from),
            save_every,
            keep_last,
            log_every,
            tensorboard,
            mlflow: mlflow(section)?,
            histograms: histograms()?,
        })
    }
}

/// The folder where MLflow looks for a file store.
const MLFLOW_STORE: &str = "mlruns";

fn mlflow(section: &Section) -> Result<Option<PathBuf>, ConfigError> {
    let expected = "`true`, `false`, or the folder of an MLflow file store";
    let value = section.or("mlflow", Value::Boolean(false), expected, |value| match value {
        // `file:` and `http:` begin tracking URIs, which are no folders.
        Value::String(path) if path.is_empty() || path.contains('\0') || path.contains("://") => {
            Err(Refused::Value)
        }
        Value::Boolean(_) | Value::String(_) => Ok(value.clone()),
        _ => Err(Refused::Kind),
    })?;
    Ok(match value {
        Value::Boolean(true) => Some(PathBuf::from(MLFLOW_STORE)),
        Value::String(path) => Some(PathBuf::from(path)),
        _ => None,
    })
}

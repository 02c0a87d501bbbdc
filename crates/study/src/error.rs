use std::{io, path::PathBuf};

use oomph_core::printable;

/// Why a study is not read or not changed. Names and values from the journal are escaped.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The system refuses.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was tried: `read`, `write`, `lock`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A line of the journal is no record.
    #[error("line {line} of `{}` is no record of a study: {reason}", path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The journal is another file than before, or has lost records.
    #[error("`{}` was {change} while it was in use; {records} records of it were read before", path.display())]
    Replaced {
        /// The journal.
        path: PathBuf,
        /// `replaced`, `shortened` or `overwritten`.
        change: &'static str,
        /// How many records this process had read.
        records: u64,
    },
    /// Another process took the lock over, since this one did not run for longer than a lock may be held.
    #[error("lost the lock of `{}` before the records were safely written", path.display())]
    LockLost {
        /// The journal.
        path: PathBuf,
    },
    /// Others held the lock all the time.
    #[error("cannot lock `{}`: others held the lock for {seconds} s", path.display())]
    LockBusy {
        /// The lock.
        path: PathBuf,
        /// How long this process waited.
        seconds: u64,
    },
    /// The journal has no study of this name.
    #[error("`{}` has no study `{}`; it has {}", path.display(), printable(name), listed(there))]
    NoStudy {
        /// The journal.
        path: PathBuf,
        /// The name.
        name: String,
        /// The names of its studies.
        there: Vec<String>,
    },
    /// A study of this name exists.
    #[error("`{}` already has a study `{}`", path.display(), printable(name))]
    Exists {
        /// The journal.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// The study was begun with something else.
    #[error("{what} is {} in the study, and {} here", printable(study), printable(here))]
    Differs {
        /// What differs, such as ``the setting `scheduler` ``.
        what: String,
        /// How the study was begun.
        study: String,
        /// What this worker has.
        here: String,
    },
    /// The study lacks what only oomph writes: it was made by another program.
    #[error("the study has no attribute `{key}`: oomph did not create it")]
    Foreign {
        /// The attribute.
        key: &'static str,
    },
    /// A parameter of a point is not in the space of the study.
    #[error("the study has no parameter `{}`", printable(name))]
    UnknownParameter {
        /// The name of the parameter.
        name: String,
    },
    /// A parameter has another kind, scale or other choices than in the trials before.
    #[error("the parameter `{}` is {here} here, and {study} in earlier trials of the study", printable(name))]
    IncompatibleParameter {
        /// The name of the parameter.
        name: String,
        /// Its kind in the study.
        study: String,
        /// Its kind now.
        here: String,
    },
    /// A parameter's value is outside of its domain.
    #[error(
        "the parameter `{}` has the value {}, which is not in its domain",
        printable(name),
        printable(value)
    )]
    OutsideDomain {
        /// The name of the parameter.
        name: String,
        /// The value.
        value: String,
    },
    /// The worker does not hold the trial any more: its lease was over, and the trial has a new owner or an end.
    #[error("trial {number} is not this worker's any more: {now}")]
    LeaseLost {
        /// The number of the trial.
        number: usize,
        /// Who has it, or how it ended.
        now: String,
    },
    /// The trial is not in the state that the change needs.
    #[error("trial {number} is {state}; expected {expected}")]
    WrongState {
        /// The number of the trial.
        number: usize,
        /// Its state.
        state: &'static str,
        /// The state that the change needs.
        expected: &'static str,
    },
    /// A value that is recorded must be a finite number.
    #[error("trial {number} has the value {value} at step {step}; expected a finite number")]
    NotFinite {
        /// The number of the trial.
        number: usize,
        /// The step.
        step: u64,
        /// The value.
        value: f64,
    },
    /// A record cannot be written as JSON.
    #[error("cannot write a record: {0}")]
    Unwritable(String),
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "none".into(),
        // A journal of others may have thousands.
        names => {
            let some: Vec<_> = names.iter().take(5).map(|name| format!("`{}`", printable(name))).collect();
            let rest = if names.len() > 5 { ", …" } else { "" };
            some.join(", ") + rest
        }
    }
}

/// Names the file and the action where the system refuses.
pub(crate) fn io_error(action: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> StudyError {
    move |source| StudyError::Io { action, path: path.to_owned(), source }
}

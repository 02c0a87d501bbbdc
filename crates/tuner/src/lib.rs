//! Runs hyperparameter studies: trials are trainings in processes of their own.
//!
//! - [`Tuner`]: a worker of a study. Its slots take trials, decide their points with their memory planned, train them up to the
//!   next length at which trials are compared, and record what they found. Several workers, on one or several machines, join
//!   one study.
//! - [`Bench`]: the program whose trainings are run: it plans them, and starts the processes.
//! - [`child`]: a training in a process of its own.
//! - [`survey`]: how much of a space fits, before anything is trained.
//! - [`best`], [`replay_study`]: what a study found, and whether its decisions come out the same.
//! - [`TrialNotes`]: what the journal keeps of a trial, beside what Optuna knows.
//!
//! Trials that train at the same time are packed by planned peaks: what is granted at a place never exceeds its limit, and each
//! training has its grant as `memory.limit`. A trial that is paused is a checkpoint on disk, and takes no memory.
//!
//! ```
//! use oomph_tuner::{Length, Unit};
//!
//! // Where trials are counted in epochs, how many steps one has depends on the batch of the trial.
//! let rung = Length { unit: Unit::Epochs, count: 3 };
//! assert_eq!(rung.steps(45), 135);
//! ```
//!
//! It knows no models and no Burn, prints nothing and installs no signal handlers.

mod bench;
pub mod child;
mod cleanup;
mod error;
mod job;
mod length;
mod news;
mod notes;
mod observer;
pub mod parsers;
mod policy;
mod results;
mod rooms;
mod settle;
mod setup;
mod space;
mod stop;
mod survey;
mod take;
mod tuner;

pub use bench::{Bench, Fit, Refusal, Request, TrialPlace};
pub use error::TuneError;
pub use length::{Length, Unit};
pub use notes::TrialNotes;
pub use observer::{QuietTune, TuneEvent, TuneObserver};
pub use results::{best, levels, point_of, replay_study};
pub use setup::Folder;
pub use space::journal_value;
pub use stop::TuneStop;
pub use survey::{Survey, SurveyResult, Surveyed, survey};
pub use tuner::{TuneEnded, Tuner, TunerOptions};

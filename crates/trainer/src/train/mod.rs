//! The training loop.

mod failure;
mod histograms;
mod metrics;
mod saving;
mod start;
mod steps;
mod training;
mod warnings;
mod writing;

use std::path::PathBuf;

use oomph_advice::out_of_memory::Kept;
use oomph_config::Sharing;
use oomph_core::on_device;
use oomph_engine::{device_failure, session::Session};
use oomph_memory::{Account, charge, restart_peak};
use oomph_runs::{Adapted, Done, Fitted, Observer};

use self::{failure::of_rank, start::start};
use crate::{
    Resume, Stop, TrainError,
    callback::{Callback, NoCallback, check},
    fit::fitted_to_train,
    memory_log::MemoryLog,
    ranks::{guarded, train_on_ranks},
    tensor_log::TensorLog,
};

pub use failure::adapt;

/// The options of [`train`](crate::train).
#[derive(Clone, Debug, Default)]
pub struct TrainOptions {
    /// Where the training starts.
    pub resume: Resume,
    /// Whether to train even where the plan does not fit.
    pub skip_plan_check: bool,
    /// How `memory.on_oom = "adapt"` changed the session to fit. The run's log gets it as an event.
    pub adapted: Option<Adapted>,
    /// Pauses the training after this many optimizer steps, saved, if it has more to do: the schedule still spans its whole
    /// length, and a training that resumes ends with the same bytes as one without a pause.
    pub pause_at: Option<usize>,
    /// Directory of the out-of-memory report of a training that is refused before it has a run directory.
    pub report: Option<PathBuf>,
}

/// With what a training begins.
#[derive(Clone)]
struct Begin<'a> {
    options: &'a TrainOptions,
    /// What `memory.fit = "auto"` chose.
    fitted: Option<Fitted>,
    /// Where all devices of this process note their tensors.
    tensors: TensorLog,
}

/// Trains until the configured end, until `stop` asks for it, or until evaluation stops improving.
///
/// The state is saved at the end. On the CPU, a run that was stopped at any step and resumed ends with the same bytes as a
/// run without a stop.
///
/// In a session that was [opened together](crate::open_together), rank 0 calls this and the others
/// [`follow`](crate::follow).
///
/// The training is planned first, and refused where the plan does not fit, unless the options skip the check. An
/// out-of-memory error has a report, which the run directory gets too. On the CPU the state of the last finished step is
/// saved then.
///
/// # Errors
/// Where data, model, task or disk fail, where memory runs out, and where the loss is not finite.
pub fn train(
    session: &Session,
    options: &TrainOptions,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Done, TrainError> {
    train_with(session, options, observer, &mut NoCallback, stop)
}

/// As [`train`], with a callback: a learning rate, measures and an end of the program's own.
///
/// # Errors
/// Those of [`train`]; where the callback gives no learning rate; and where it wants predictions, and other ranks have some
/// of them.
pub fn train_with(
    session: &Session,
    options: &TrainOptions,
    observer: &mut dyn Observer,
    callback: &mut dyn Callback,
    stop: &Stop,
) -> Result<Done, TrainError> {
    let (session, fitted) = fitted_to_train(session, &options.resume)?;
    let session = &*session;
    check(session, callback)?;
    // The process may have trained before.
    (0..session.devices_here().len()).for_each(|device| on_device(device, restart_peak));
    let tensors = TensorLog::default();
    let begin = Begin { options, fitted, tensors: tensors.clone() };
    match session.config.device.sharing {
        _ if !session.replicas.is_alone() => {
            guarded(session, |session| lead(session, begin, observer, callback, stop, &mut None))
        }
        Sharing::Ddp(_) => {
            let mut left = None;
            let noted = MemoryLog::is_wanted(session).then_some(tensors);
            let lead = |session: &Session| lead(session, begin.clone(), observer, callback, stop, &mut left);
            train_on_ranks(session, stop, noted, lead).map_err(|error| of_rank(error, left))
        }
        _ => lead(session, begin, observer, callback, stop, &mut None),
    }
}

/// Trains on one device, on the devices of a split model, or as rank 0. A failed training fills `run_left`.
fn lead(
    session: &Session,
    begin: Begin<'_>,
    observer: &mut dyn Observer,
    callback: &mut dyn Callback,
    stop: &Stop,
    run_left: &mut Option<(PathBuf, Kept)>,
) -> Result<Done, TrainError> {
    let work = || {
        let mut training = start(session, begin, observer, callback, stop)?;
        match device_failure::caught(|| training.run()) {
            Ok(ended) => training.finish(ended),
            Err(error) => {
                let error = training.explain(error);
                training.log.failed(error.to_string());
                // Saving needs all ranks, so the state is not saved if another rank ran out of memory.
                let kept = training.saves.before("the ranks cannot save without the failed rank".to_owned());
                *run_left = Some((training.log.run.path().to_owned(), kept));
                Err(error)
            }
        }
    };
    device_failure::on(&session.config.device.devices, || charge(Account::Device, work))
}

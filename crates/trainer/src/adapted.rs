use oomph_advice::out_of_memory::{self, Advice};
use oomph_engine::session::Session;
use oomph_runs::Adapted;

use crate::TrainError;

/// The event of a training that takes an advice.
pub(crate) fn adapted(advice: &Advice, step: usize, because: String) -> Adapted {
    Adapted {
        step,
        settings: advice.settings.iter().cloned().collect(),
        planned_peak_bytes: advice.planned_peak_bytes,
        because,
    }
}

/// Changes a session to fit, if its plan does not and `memory.on_oom = "adapt"`. Only levers that keep the mathematics are
/// used. `None` where nothing changes.
///
/// # Errors
/// Where no such change makes the training fit.
pub fn adapt(session: &Session) -> Result<Option<(Session, Adapted)>, TrainError> {
    let adaptation = out_of_memory::adapt(session)?;
    Ok(adaptation.map(|found| {
        let adapted = adapted(&found.advice, 0, found.because);
        (found.session, adapted)
    }))
}

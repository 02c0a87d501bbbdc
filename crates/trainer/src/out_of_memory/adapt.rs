use oomph_config::OnOom;

use super::{Advice, OutOfMemory, Shortage, advise};
use crate::{Adapted, PlanOptions, Session, TrainError, backend, planned_peak};

/// Changes a session whose plan does not fit so that it does, where `memory.on_oom = "adapt"` asks for it and something
/// can be changed that keeps the mathematics. `None` where nothing is changed.
///
/// # Errors
/// Where there is no such training.
pub fn adapt(session: &Session) -> Result<Option<(Session, Adapted)>, TrainError> {
    let (OnOom::Adapt, Some(limit_bytes)) = (session.config.memory.on_oom, session.limit_bytes) else {
        return Ok(None);
    };
    let backend = backend(session);
    let planned_peak_bytes = planned_peak(session, PlanOptions::default())?;
    if planned_peak_bytes <= limit_bytes {
        return Ok(None);
    }
    let Some(advice) =
        advise(session, limit_bytes, backend).levers.into_iter().find(|advice| advice.keeps_mathematics)
    else {
        return Ok(None);
    };
    let varied = session.varied(&advice.settings)?;
    let because =
        format!("a planned peak of {planned_peak_bytes} is too much for the limit of {limit_bytes}");
    Ok(Some((varied, advice.adapted(0, because))))
}

impl Advice {
    /// What is told of a training that takes it.
    pub(crate) fn adapted(&self, step: usize, because: String) -> Adapted {
        Adapted {
            step,
            settings: self.settings.iter().cloned().collect(),
            planned_peak_bytes: self.planned_peak_bytes,
            because,
        }
    }
}

impl OutOfMemory {
    /// What a training that ran out of memory can go on with, in a fresh process, so that it ends as it would have: the
    /// best advice that keeps the mathematics. `None` where there is none, or nothing was tried yet.
    pub fn goes_on_with(&self) -> Option<&Advice> {
        if matches!(self.shortage, Shortage::Planned { .. }) {
            return None;
        }
        self.report.as_ref()?.levers.iter().find(|advice| advice.keeps_mathematics)
    }
}

use oomph_config::OnOom;
use oomph_engine::session::{Session, backend};

use super::{advisor::advise, report::Advice};
use crate::{
    error::PlanError,
    planning::{PlanOptions, planned_peak},
    varied::varied,
};

/// A session that was changed so that its plan fits.
#[derive(Debug)]
pub struct Adaptation {
    /// The session with the changes.
    pub session: Session,
    /// The changes.
    pub advice: Advice,
    /// Why the session was changed, as a sentence.
    pub because: String,
}

/// Changes a session whose plan does not fit, if `memory.on_oom = "adapt"`. It takes the best advice that keeps the
/// mathematics. `None` if the plan fits, or if no such advice exists.
///
/// # Errors
/// If the session cannot be planned.
pub fn adapt(session: &Session) -> Result<Option<Adaptation>, PlanError> {
    let (OnOom::Adapt, Some(limit_bytes)) = (session.config.memory.on_oom, session.limit_bytes) else {
        return Ok(None);
    };
    let planned_peak_bytes = planned_peak(session, PlanOptions::default())?;
    if planned_peak_bytes <= limit_bytes {
        return Ok(None);
    }
    let advised = advise(session, limit_bytes, backend(session));
    let Some(advice) = advised.levers.into_iter().find(|advice| advice.keeps_mathematics) else {
        return Ok(None);
    };
    let session = varied(session, &advice.changes)?;
    let because = format!("the planned peak of {planned_peak_bytes} exceeds the limit of {limit_bytes}");
    Ok(Some(Adaptation { session, advice, because }))
}

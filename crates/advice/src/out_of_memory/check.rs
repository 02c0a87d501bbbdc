use std::path::PathBuf;

use oomph_core::{Bytes, Phase};
use oomph_engine::{
    exhausted::{Exhausted, Shortage},
    session::{Session, backend},
};
use oomph_timeline::Timeline;

use super::{
    explain::{OomContext, explain},
    report::OutOfMemory,
};
use crate::{
    error::PlanError,
    planning::{PlanOptions, PlannedCut, PlannedPart, PlannedTime, plan_cut, plan_with_time},
};

/// The plan of a training.
#[derive(Debug)]
pub struct PlannedTraining {
    /// The planned peak of the fullest device.
    pub peak_bytes: Bytes,
    /// The planned time, on one device whose speed is known.
    pub time: Option<PlannedTime>,
    /// The plan of each device, where devices have different work.
    pub cut: Option<PlannedCut>,
}

impl PlannedTraining {
    /// Plans the session's training, whether it fits or not.
    ///
    /// # Errors
    /// The errors of [`plan_with_time`] and [`plan_cut`].
    pub fn new(session: &Session) -> Result<Self, PlanError> {
        Self::planned(session, |_, _, _| Ok(()))
    }

    /// Plans the session's training, and refuses it if the planned peak of a device exceeds its limit by more than the
    /// planner's error. Writes the report into `directory`, if one is given.
    ///
    /// # Errors
    /// [`PlanError::OutOfMemory`] with its report, and the errors of [`Self::new`].
    pub fn checked(session: &Session, directory: Option<PathBuf>) -> Result<Self, PlanError> {
        Self::planned(session, |device, planned, limit_bytes| {
            let Some(limit_bytes) = limit_bytes else { return Ok(()) };
            let at_least = planned.needed_bytes().get() as f64 * (1.0 - backend(session).error());
            if at_least <= limit_bytes.get() as f64 {
                return Ok(());
            }
            let context = OomContext { device, directory: directory.clone(), ..OomContext::default() };
            Err(refusal(session, planned, limit_bytes, context))
        })
    }

    /// Calls `check` with the number, the plan and the limit of each device whose work differs.
    fn planned(
        session: &Session,
        check: impl Fn(usize, &Timeline, Option<Bytes>) -> Result<(), PlanError>,
    ) -> Result<Self, PlanError> {
        let Some(cut) = plan_cut(session, PlanOptions::default())? else {
            let (planned, time) = plan_with_time(session, PlanOptions::default())?;
            check(0, &planned, session.limit_bytes)?;
            return Ok(Self { peak_bytes: planned.peak().categories.total(), time, cut: None });
        };
        for (device, part) in cut.parts.iter().enumerate() {
            check(device, &part.timeline, part.limit_bytes)?;
        }
        let peak_bytes = cut.parts.iter().map(PlannedPart::planned_peak_bytes).max().unwrap_or_default();
        Ok(Self { peak_bytes, time: None, cut: Some(cut) })
    }
}

/// The error of a plan that exceeds a limit, with its report.
fn refusal(session: &Session, planned: &Timeline, limit_bytes: Bytes, context: OomContext) -> PlanError {
    let peak = planned.peak();
    let (phase, stage) = planned.place_of(peak.event);
    let phase = Phase::ALL.into_iter().find(|known| known.name() == phase).unwrap_or_default();
    let shortage = Shortage::Planned { planned_peak_bytes: peak.categories.total(), limit_bytes };
    let mut error = OutOfMemory::from(Exhausted::new(shortage, phase, stage.to_owned()));
    explain(session, &mut error, context);
    Box::new(error).into()
}

use std::{ops::Range, path::PathBuf};

use oomph_core::{Bytes, Phase};
use oomph_memory::{Account, SpanKind, Split, Timeline, charge};

use super::{
    Advised, Kept, OutOfMemory, OutOfMemoryReport, Shortage, Surroundings,
    advice::{Subject, advise_on},
    write::write,
};
use crate::{PlanOptions, Session, TrainError, backend, plan, plan_cut};

/// How many of the largest holders a report names.
const HOLDERS: usize = 5;

/// What is known of an [`OutOfMemory`] beside the session.
#[derive(Debug)]
pub(crate) struct Circumstances {
    /// What ran out.
    pub(crate) subject: Subject,
    /// On which of the devices that the session's model lies on; 0 where it lies on one.
    pub(crate) device: usize,
    /// What was recorded, up to then.
    pub(crate) seen: Option<Timeline>,
    /// What a GPU's allocator held when it was last asked.
    pub(crate) reserved_bytes: Option<Bytes>,
    /// The run directory of a training, and what is left of it.
    pub(crate) run: Option<(PathBuf, Kept)>,
    /// Where the report goes, if it is to be written. The directory is made; where its name is taken it gets a number.
    pub(crate) directory: Option<PathBuf>,
}

/// Adds to an error what was held and for what, what else is on the device, and what can be changed; and writes it.
/// Where something of it cannot be found out or written, the error is told without it.
pub(crate) fn explain(session: &Session, error: &mut OutOfMemory, known: Circumstances) {
    // What was crossed on the way back is no news, and nothing that follows is the device's.
    oomph_memory::take_crossing();
    charge(Account::Host, || {
        let Circumstances { subject, device, seen, reserved_bytes, run, directory } = known;
        let Ok(planned) = planned_on(session, subject, device) else { return };
        let mut report = report(session, error, (subject, device, &planned), (seen.as_ref(), reserved_bytes));
        (report.run_dir, report.kept) = run.unzip();
        if let Some(directory) = directory {
            write(&mut report, seen.as_ref().unwrap_or(&planned), &directory);
        }
        error.report = Some(Box::new(report));
    });
}

/// What is planned for the device.
fn planned_on(session: &Session, subject: Subject, device: usize) -> Result<Timeline, TrainError> {
    let options = PlanOptions::default();
    let cut = if subject == Subject::Training { plan_cut(session, options)? } else { None };
    match cut.and_then(|cut| cut.parts.into_iter().nth(device)) {
        Some(part) => Ok(part.timeline),
        None => subject.plan(session, options),
    }
}

/// Plans the session's training, and refuses it where it cannot fit: where the planned peak is above the limit by more
/// than the planner errs. The report is written into `directory`, where one is given.
///
/// The planned peak is what it gives.
///
/// # Errors
/// [`TrainError::OutOfMemory`] with its report; and where there is no such training.
pub fn check_plan(session: &Session, directory: Option<PathBuf>) -> Result<Bytes, TrainError> {
    let planned = plan(session, PlanOptions::default())?;
    let peak = planned.peak();
    let planned_peak_bytes = peak.categories.total();
    let Some(limit_bytes) = session.limit_bytes else { return Ok(planned_peak_bytes) };
    let at_least = planned_peak_bytes.get() as f64 * (1.0 - backend(session).error());
    if at_least <= limit_bytes.get() as f64 {
        return Ok(planned_peak_bytes);
    }
    let (phase, stage) = planned.place_of(peak.event);
    let phase = Phase::ALL.into_iter().find(|known| known.name() == phase).unwrap_or_default();
    let shortage = Shortage::Planned { planned_peak_bytes, limit_bytes };
    let mut error = OutOfMemory::new(shortage, phase, stage.to_owned());
    let subject = Subject::Training;
    let known = Circumstances { subject, device: 0, seen: None, reserved_bytes: None, run: None, directory };
    explain(session, &mut error, known);
    Err(Box::new(error).into())
}

fn report(
    session: &Session,
    error: &OutOfMemory,
    (subject, device, planned): (Subject, usize, &Timeline),
    (seen, reserved_bytes): (Option<&Timeline>, Option<Bytes>),
) -> OutOfMemoryReport {
    let planned_peak = planned.peak();
    let planned_peak_bytes = planned_peak.categories.total();
    let (requested_bytes, limit_bytes, unplanned_bytes) = match error.shortage {
        Shortage::Limit { requested_bytes, in_use_bytes, limit_bytes, .. } => {
            (Some(requested_bytes), Some(limit_bytes), unplanned(error, in_use_bytes, planned))
        }
        Shortage::Planned { limit_bytes, .. } => (None, Some(limit_bytes), Bytes::default()),
        Shortage::Device { requested_bytes, .. } => (requested_bytes, None, Bytes::default()),
    };
    let (in_use, holders) = match seen.and_then(|seen| Some((seen, above(seen, limit_bytes)?))) {
        Some((seen, (event, in_use))) => (in_use, seen.holders(event, Some(planned), HOLDERS)),
        None => (planned_peak.categories, planned.holders(planned_peak.event, None, HOLDERS)),
    };
    let mut surroundings = Surroundings::look(session, in_use.total(), reserved_bytes);
    if matches!(error.shortage, Shortage::Planned { .. }) {
        // What this process holds now has nothing to do with what it would.
        (surroundings.reserved_bytes, surroundings.fragmentation_bytes) = (None, None);
    }
    let capacity = limit_bytes.or_else(|| Some(surroundings.reserved_bytes? + surroundings.free_bytes?));
    let room_bytes = match capacity {
        Some(capacity) => Bytes::new(capacity.get().saturating_sub(unplanned_bytes.get())),
        // It failed somewhere below its planned peak, and nobody knows where.
        None => Bytes::new(planned_peak_bytes.get() / 4 * 3),
    };
    // A lever is to help the fullest device, to whose bytes all are scaled.
    let room_bytes = session.bytes_of_smallest(device, room_bytes);
    let Advised { levers, least } = advise_on(subject, session, room_bytes, backend(session));
    OutOfMemoryReport {
        message: error.to_string(),
        title: planned.title.clone(),
        device: planned.device.clone(),
        phase: error.phase,
        scope: error.scope.clone(),
        step: error.step,
        requested_bytes,
        limit_bytes: capacity,
        planned_peak_bytes,
        unplanned_bytes,
        in_use,
        is_measured: seen.is_some(),
        holders,
        surroundings,
        not_written: None,
        run_dir: None,
        kept: None,
        levers,
        least,
        files: None,
    }
}

/// The first event of the last ones that went above the limit, or else the highest of them, and what was in use.
fn above(seen: &Timeline, limit_bytes: Option<Bytes>) -> Option<(u32, Split)> {
    /// Threads claim an event before they change the level.
    const CLAIMED: usize = 64;
    let levels = seen.levels();
    let last = levels.iter().enumerate().skip(levels.len().saturating_sub(CLAIMED));
    let over = |level: &Split| limit_bytes.is_some_and(|limit| level.total() > limit);
    let first = last.clone().find(|(_, level)| over(level));
    let highest = || last.max_by_key(|(_, level)| level.total());
    first.or_else(highest).map(|(event, level)| (event as u32, *level))
}

/// What was in use beyond what the plan has at the same place.
fn unplanned(error: &OutOfMemory, in_use_bytes: Bytes, planned: &Timeline) -> Bytes {
    let there = planned_at(planned, error.phase, &error.scope);
    let more = in_use_bytes.get().saturating_sub(there.get());
    // What a plan may be wrong by, and no other program's doing.
    let is_noise = (more as f64) < there.get() as f64 * 0.02;
    Bytes::new(if is_noise { 0 } else { more })
}

/// The most that the plan has in a phase, in the stage of `scope` where it knows that.
fn planned_at(planned: &Timeline, phase: Phase, scope: &str) -> Bytes {
    let phases: Vec<Range<u32>> = planned
        .spans_of(SpanKind::Phase)
        .filter(|span| planned.names.text(span.name) == phase.name())
        .map(|span| span.start..span.end)
        .collect();
    let stages: Vec<Range<u32>> = planned
        .spans_of(SpanKind::Stage)
        .filter(|span| {
            let rest = scope.strip_prefix(planned.names.text(span.name));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
        .filter(|span| phases.iter().any(|phase| phase.contains(&span.start)))
        .map(|span| span.start..span.end)
        .collect();
    let within = if stages.is_empty() { &phases } else { &stages };
    let levels = planned.levels();
    let totals = within.iter().flat_map(|events| {
        levels.get(events.start as usize..events.end as usize).unwrap_or_default().iter().map(Split::total)
    });
    totals.max().unwrap_or_else(|| planned.peak().categories.total())
}

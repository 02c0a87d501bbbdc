use std::{ops::Range, path::PathBuf};

use oomph_config::OnOom;
use oomph_core::{Bytes, Phase, is_within};
use oomph_engine::{
    device_failure,
    exhausted::Shortage,
    session::{Session, backend, bytes_of_smallest},
};
use oomph_memory::{Account, charge};
use oomph_timeline::{SpanKind, Split, Timeline};

use super::{
    advisor::{Advised, Subject, advise, advise_on},
    process_memory::ProcessMemory,
    report::{Advice, Kept, OutOfMemory, OutOfMemoryReport},
    write::write,
};
use crate::{
    error::PlanError,
    planning::{PlanOptions, fitted, plan_cut, planned_peak},
    varied::varied,
};

/// The number of largest blocks in a report.
const HOLDERS: usize = 5;

/// The facts about an [`OutOfMemory`] that the session does not have.
#[derive(Debug, Default)]
pub struct OomContext {
    /// The kind of work that ran out of memory.
    pub subject: Subject,
    /// The number of the device, from 0.
    pub device: usize,
    /// The recorded timeline until memory ran out.
    pub seen: Option<Timeline>,
    /// Bytes that the GPU's allocator had reserved at the last reading.
    pub reserved_bytes: Option<Bytes>,
    /// The run directory of a training, and its saved state.
    pub run: Option<(PathBuf, Kept)>,
    /// The directory to write the report to. It is created; if the name is taken, a number is added.
    pub directory: Option<PathBuf>,
}

/// Adds the report to an error: the memory in use, other memory on the device, and advice. Writes the report if a
/// directory is given. Facts that cannot be found out are left out, and files that cannot be written are noted.
pub fn explain(session: &Session, error: &mut OutOfMemory, known: OomContext) {
    // The limit may be exceeded again while the error is returned: forget that. A GPU may go on failing. All memory from
    // here on is host memory.
    oomph_memory::take_crossing();
    let explained = || {
        let planned = planned_on(session, known.subject, known.device).ok()?;
        let mut report = report(session, error, &planned, &known);
        let OomContext { seen, run, directory, .. } = known;
        (report.run_dir, report.kept) = run.unzip();
        if let Some(directory) = directory {
            write(&mut report, seen.as_ref().unwrap_or(&planned), &directory);
        }
        Some(Box::new(report))
    };
    error.report = device_failure::apart(|| charge(Account::Host, explained));
}

/// The planned timeline of the device.
fn planned_on(session: &Session, subject: Subject, device: usize) -> Result<Timeline, PlanError> {
    let options = PlanOptions::default();
    let cut = if subject != Subject::Evaluation { plan_cut(session, options)? } else { None };
    match cut.and_then(|cut| cut.parts.into_iter().nth(device)) {
        Some(part) => Ok(part.timeline),
        None => subject.plan(session, options),
    }
}

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
    let session = &*fitted(session, PlanOptions::default())?;
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

fn report(
    session: &Session,
    error: &OutOfMemory,
    planned: &Timeline,
    known: &OomContext,
) -> OutOfMemoryReport {
    let OomContext { subject, device, reserved_bytes, .. } = *known;
    let seen = known.seen.as_ref();
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
    let mut process_memory = ProcessMemory::look(session, device, in_use.total(), reserved_bytes);
    if matches!(error.shortage, Shortage::Planned { .. }) {
        // The memory of this process now says nothing about the training.
        (process_memory.reserved_bytes, process_memory.fragmentation_bytes) = (None, None);
    }
    let capacity = limit_bytes.or_else(|| Some(process_memory.reserved_bytes? + process_memory.free_bytes?));
    let within_capacity = capacity.map(|capacity| capacity.saturating_sub(unplanned_bytes));
    let available_bytes = match error.shortage {
        // The GPU failed at an unknown level below the planned peak, whatever its driver reports as free.
        Shortage::Device { .. } => {
            let below = Bytes::new(planned_peak_bytes.get() / 4 * 3);
            within_capacity.map_or(below, |within| within.min(below))
        }
        _ => within_capacity.unwrap_or(planned_peak_bytes),
    };
    // Advice is for the fullest device, so bytes are scaled to it.
    let available_bytes = bytes_of_smallest(session, device, available_bytes);
    let Advised { levers, least } = advise_on(subject, session, available_bytes, backend(session));
    OutOfMemoryReport {
        message: error.to_string(),
        title: title(session, planned, device),
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
        process_memory,
        levers,
        least,
        // The run and the files are added when they are known.
        ..OutOfMemoryReport::default()
    }
}

/// The title of the plan; it names the device where devices differ.
fn title(session: &Session, planned: &Timeline, device: usize) -> String {
    let differ = session.is_split() || session.scatter().is_some();
    if differ { format!("{} · device {device}", planned.title) } else { planned.title.clone() }
}

/// The first of the last events above the limit, or else the highest of them, with the bytes in use.
fn above(seen: &Timeline, limit_bytes: Option<Bytes>) -> Option<(u32, Split)> {
    /// The number of last events to look at: threads claim an event before they change the level.
    const CLAIMED: usize = 64;
    let levels = seen.levels();
    let last = levels.iter().enumerate().skip(levels.len().saturating_sub(CLAIMED));
    let over = |level: &Split| limit_bytes.is_some_and(|limit| level.total() > limit);
    let first = last.clone().find(|(_, level)| over(level));
    let highest = || last.max_by_key(|(_, level)| level.total());
    first.or_else(highest).map(|(event, level)| (event as u32, *level))
}

/// The bytes in use that the plan does not have at the same place.
fn unplanned(error: &OutOfMemory, in_use_bytes: Bytes, planned: &Timeline) -> Bytes {
    let there = planned_at(planned, error.phase, &error.scope);
    let more = in_use_bytes.get().saturating_sub(there.get());
    // Up to 2 % may be the planner's error.
    let is_noise = (more as f64) < there.get() as f64 * 0.02;
    Bytes::new(if is_noise { 0 } else { more })
}

/// The highest planned bytes in a phase, and in the stage of `scope` if the plan has it.
fn planned_at(planned: &Timeline, phase: Phase, scope: &str) -> Bytes {
    let phases: Vec<Range<u32>> = planned
        .spans_of(SpanKind::Phase)
        .filter(|span| planned.names.text(span.name) == phase.name())
        .map(|span| span.start..span.end)
        .collect();
    let stages: Vec<Range<u32>> = planned
        .spans_of(SpanKind::Stage)
        .filter(|span| is_within(scope, planned.names.text(span.name)))
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

use oomph_advice::planning::{PlanOptions, plan_parts, plan_replicas};
use oomph_engine::session::Session;
use oomph_timeline::{SpanKind, Timeline};

use super::ProfiledDevice;
use crate::TrainError;

/// Pairs each measured device with its plan of the same steps and evaluation batches, under the same names.
pub(super) fn with_plans(
    session: &Session,
    timelines: Vec<Timeline>,
    warmup: usize,
) -> Result<Vec<ProfiledDevice>, TrainError> {
    // The first step differs from the second. Later steps equal the second.
    let before = warmup.min(1);
    let names = timelines.first().map(step_names).unwrap_or_default();
    let eval_batches = names.iter().filter(|name| name.starts_with("eval")).count();
    let steps = before + names.len() - eval_batches;
    let parts = plan_parts(session, PlanOptions::default(), steps)?;
    let replica = match parts {
        Some(_) => None,
        // All replicas have the same plan.
        None => Some(plan_replicas(session, PlanOptions::default(), steps, eval_batches)?),
    };
    let mut parts = parts.into_iter().flatten();
    let found = timelines.into_iter().enumerate().filter_map(|(index, measured)| {
        let (stages, plan) = match &replica {
            Some(plans) => (None, plans[index.min(1)].clone()),
            None => parts.next().map(|part| (Some(part.names), part.timeline))?,
        };
        let planned = named_as(plan, &measured, before);
        Some(ProfiledDevice { stages, measured, planned })
    });
    Ok(found.collect())
}

fn step_names(timeline: &Timeline) -> Vec<String> {
    let steps = timeline.spans_of(SpanKind::Step);
    steps.map(|span| timeline.names.text(span.name).to_owned()).collect()
}

/// The plan without its first `before` steps, with the names of the measured steps.
fn named_as(plan: Timeline, measured: &Timeline, before: usize) -> Timeline {
    let first = plan.spans_of(SpanKind::Step).nth(before).map_or(0, |span| span.start);
    let mut plan = plan.since(first.saturating_sub(1));
    plan.device.clone_from(&measured.device);
    let steps = plan.spans.iter_mut().filter(|span| span.kind == SpanKind::Step);
    for (span, name) in steps.zip(step_names(measured)) {
        span.name = plan.names.of(&name);
    }
    plan
}

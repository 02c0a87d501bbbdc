use std::path::PathBuf;

use oomph_advice::{
    out_of_memory::{Advice, advise},
    planning::{PlanOptions, PlannedCut, PlannedPart, fits, plan_cut},
    varied,
};
use oomph_config::Change;
use oomph_core::Bytes;
use oomph_engine::session::largest_train_batch;
use oomph_timeline::Split as Categories;
use serde::Serialize;

use super::{
    arguments::PlanArguments,
    batch_plan::offloaded,
    planner::{Planner, Rules},
};
use crate::error::CliError;

/// The plan of a model that is split over devices; as JSON.
#[derive(Serialize)]
pub(super) struct SplitPlan {
    pub(super) model: String,
    pub(super) optimizer: String,
    pub(super) policy: String,
    strategy: Option<&'static str>,
    #[serde(flatten)]
    pub(super) rules: Rules,
    batch: usize,
    pub(super) micro_batch: usize,
    pub(super) micro_batches: usize,
    /// The memory limit of each device; the smallest one of several.
    pub(super) limit_bytes: Option<Bytes>,
    /// Whether the part of every device fits.
    pub(super) fits: Option<bool>,
    /// The estimated share of forward and backward in which devices wait for others.
    pub(super) idle_share: f64,
    pub(super) devices: Vec<PlannedDevice>,
    /// Settings that make the plan fit, if it does not.
    pub(super) levers: Vec<Advice>,
    pub(super) plan_seconds: f64,
}

#[derive(Serialize)]
pub(super) struct PlannedDevice {
    pub(super) device: String,
    /// The first and the last stage.
    pub(super) stages: [String; 2],
    pub(super) planned_peak_bytes: Bytes,
    /// The most bytes that the pools of a GPU reserve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) planned_reserved_bytes: Option<Bytes>,
    /// The most bytes in host memory, with `memory.offload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) planned_offloaded_bytes: Option<Bytes>,
    pub(super) limit_bytes: Option<Bytes>,
    pub(super) fits: Option<bool>,
    pub(super) categories: Categories,
    pub(super) idle_share: f64,
}

/// A plan with the planned parts and the timeline files.
pub(super) struct Split {
    pub(super) plan: SplitPlan,
    pub(super) planned: PlannedCut,
    /// The fullest device, and the files of its timeline.
    pub(super) files: Option<(usize, Vec<PathBuf>)>,
}

/// Plans one batch over the devices, and writes the timeline files.
pub(super) fn plan(planner: &Planner, arguments: &PlanArguments) -> Result<Option<Split>, CliError> {
    let batch = match arguments.batch[..] {
        [] => None,
        [batch] => Some(batch as usize),
        [..] => return Err(CliError::SeveralBatches),
    };
    let Some(planned) = plan_cut(&planner.session, PlanOptions { batch, ..planner.options() })? else {
        return Ok(None);
    };
    let files = write_timeline(planner, &planned, arguments)?;
    let mut plan = split_plan(planner, &planned);
    if plan.fits == Some(false) {
        plan.levers = levers(planner, &planned)?;
    }
    Ok(Some(Split { plan, planned, files }))
}

/// Writes the timeline of the fullest device.
fn write_timeline(
    planner: &Planner,
    planned: &PlannedCut,
    arguments: &PlanArguments,
) -> Result<Option<(usize, Vec<PathBuf>)>, CliError> {
    if arguments.html.as_ref().or(arguments.svg.as_ref()).is_none() {
        return Ok(None);
    }
    let share = |part: &PlannedPart| {
        let limit = part.limit_bytes.map_or(1, Bytes::get).max(1);
        part.needed_bytes().get() as f64 / limit as f64
    };
    let parts = planned.parts.iter().enumerate();
    let fullest = parts.max_by(|(_, one), (_, other)| share(one).total_cmp(&share(other)));
    let Some((device, part)) = fullest else { return Ok(None) };
    let mut timeline = part.timeline.clone();
    timeline.device.clone_from(&planner.names[device]);
    Ok(Some((device, arguments.write(&timeline)?)))
}

fn split_plan(planner: &Planner, planned: &PlannedCut) -> SplitPlan {
    let session = &planner.session;
    let device = |(index, part): (usize, &PlannedPart)| {
        let categories = part.timeline.peak().categories;
        let planned_peak_bytes = categories.total();
        PlannedDevice {
            device: planner.names[index].clone(),
            stages: part.names.clone(),
            planned_peak_bytes,
            planned_reserved_bytes: part.timeline.reserved_peak(),
            planned_offloaded_bytes: offloaded(&part.timeline),
            limit_bytes: part.limit_bytes,
            fits: part.limit_bytes.map(|limit| fits(part.needed_bytes(), limit, planner.backend)),
            categories,
            idle_share: planned.trace.idle_share(index),
        }
    };
    let devices: Vec<_> = planned.parts.iter().enumerate().map(device).collect();
    let all_fit = devices.iter().map(|device| device.fits).collect::<Option<Vec<bool>>>();
    SplitPlan {
        model: session.architecture.name().to_owned(),
        optimizer: planner.optimizer(),
        policy: planned.policy.clone(),
        strategy: session.config.device.sharing.name(),
        rules: planner.rules(),
        batch: planned.batch,
        micro_batch: planned.micro_batch,
        micro_batches: planned.micro_batches,
        limit_bytes: planner.limit_bytes,
        fits: all_fit.map(|fit| fit.into_iter().all(|fits| fits)),
        idle_share: planned.trace.bubble(),
        devices,
        levers: Vec::new(),
        plan_seconds: 0.0,
    }
}

/// Settings that make the plan fit. Planned peaks are compared with the limit of the smallest device.
fn levers(planner: &Planner, planned: &PlannedCut) -> Result<Vec<Advice>, CliError> {
    let Some(limit) = planner.limit_bytes else { return Ok(Vec::new()) };
    let session = &planner.session;
    if planned.batch == largest_train_batch(session) {
        return Ok(advise(session, limit, planner.backend).levers);
    }
    // A batch other than the config's is one of the settings.
    let batch = Change::Batch(planned.batch);
    let session = varied(session, std::slice::from_ref(&batch))?;
    let mut levers = advise(&session, limit, planner.backend).levers;
    for advice in &mut levers {
        if advice.changes.iter().all(|change| change.key() != batch.key()) {
            advice.settings.insert(0, batch.setting());
            advice.changes.insert(0, batch.clone());
        }
    }
    Ok(levers)
}

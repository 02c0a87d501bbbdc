//! A plan as people read it.

use oomph_core::Bytes;
use oomph_memory::Category;
use oomph_trainer::Advice;

use super::{Plan, Planned, PlannedBatch};
use crate::{
    numbers::{grouped, percent},
    table::{Align, Table},
};

pub(super) fn report(plan: &Plan) -> String {
    let parts =
        [Some(head(plan)), Some(table(plan).to_string()), Some(largest(plan)), further(plan), page(plan)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

/// `resnet50 · 3×224×224 · fp32 · sgd · planned in 41 ms`.
fn head(plan: &Plan) -> String {
    let micro_batch = (plan.micro_batch < plan.shown.share).then_some(plan.micro_batch);
    let micro_batch = micro_batch.map(|size| format!(" · micro-batch {}", grouped(size)));
    format!(
        "{} · {} · {} · {}{}\n{} · planned in {:.0} ms\n",
        plan.model,
        plan.shown.sample,
        plan.policy,
        plan.optimizer,
        micro_batch.unwrap_or_default(),
        plan.shown.place,
        plan.plan_seconds * 1000.0
    )
}

fn table(plan: &Plan) -> Table<11> {
    let mut table = Table::new([
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Left,
    ]);
    let fits = plan.limit_bytes.map(|limit| limit.to_string()).unwrap_or_default();
    table.heading([
        "batch",
        if plan.world_size > 1 { "per device" } else { "" },
        "planned peak",
        "parameters",
        "gradients",
        "optimizer state",
        "activations",
        "inputs",
        "workspace",
        "other",
        &fits,
    ]);
    for batch in &plan.batches {
        let row = match &batch.planned {
            Some(planned) => row(plan, batch, planned),
            None => refused(batch),
        };
        if batch.batch == plan.shown.batch { table.strong(row) } else { table.row(row) }
    }
    if plan.world_size > 1 { table } else { table.without_column(1) }
}

/// A batch that the model cannot be trained on.
fn refused(batch: &PlannedBatch) -> [String; 11] {
    let mut row: [String; 11] = Default::default();
    row[0] = grouped(batch.batch);
    row[10] = batch.refused.clone().unwrap_or_default();
    row
}

fn row(plan: &Plan, batch: &PlannedBatch, planned: &Planned) -> [String; 11] {
    let of = |category| match planned.categories.of(category) {
        bytes if bytes == Bytes::default() => "–".to_owned(),
        bytes => bytes.to_string(),
    };
    let verdict = match (planned.fits, plan.limit_bytes) {
        (Some(true), _) => "fits".to_owned(),
        (Some(false), Some(limit)) => missing(plan.margin, planned.planned_peak_bytes, limit),
        _ => String::new(),
    };
    [
        grouped(batch.batch),
        grouped(batch.samples_per_device),
        planned.planned_peak_bytes.to_string(),
        of(Category::Parameters),
        of(Category::Gradients),
        of(Category::OptimizerState),
        of(Category::Activations),
        of(Category::Inputs),
        of(Category::Workspace),
        of(Category::Other),
        verdict,
    ]
}

/// By how much a planned peak is too large for a limit.
pub(super) fn missing(share: f64, peak: Bytes, limit: Bytes) -> String {
    match peak.get().checked_sub(limit.get()) {
        Some(more) if more > 0 => format!("needs {} more", Bytes::new(more)),
        _ => format!("leaves less than {} free", margin(share)),
    }
}

fn largest(plan: &Plan) -> String {
    let Some(limit) = plan.limit_bytes else {
        return "no limit is known: `--gpu 24GiB` or `--memory-limit` asks what fits\n".into();
    };
    let margin = format!("{} margin", margin(plan.margin));
    match (plan.largest_batch, plan.largest_batch_planned_peak_bytes) {
        (Some(batch), Some(peak)) if batch >= plan.shown.train_samples => format!(
            "largest batch that fits: all {} samples there are to train on  ({peak} of {limit}, {margin})\n",
            grouped(batch)
        ),
        (Some(batch), Some(peak)) => {
            let share = plan.shown.largest_share.filter(|_| plan.world_size > 1);
            let share = share.map(|share| format!(", {} per device", grouped(share))).unwrap_or_default();
            format!("largest batch that fits: {}{share}  ({peak} of {limit}, {margin})\n", grouped(batch))
        }
        _ => format!("no batch fits {limit} with a {margin}\n"),
    }
}

/// `15 %`.
fn margin(share: f64) -> String {
    percent(share).replace(".0 %", " %")
}

/// What a config whose batch does not fit can do.
fn further(plan: &Plan) -> Option<String> {
    if plan.levers.is_empty() {
        return None;
    }
    let levers = lever_table(&plan.levers);
    Some(format!("to train with the config's batch of {} all the same:\n{levers}", grouped(plan.shown.batch)))
}

/// What to set, what comes of it, and what it costs.
pub(super) fn lever_table(levers: &[Advice]) -> Table<4> {
    use Align::{Left, Right};
    let mut table = Table::new([Left, Right, Left, Left]);
    for advice in levers {
        let peak = format!("planned peak {}", advice.planned_peak_bytes);
        table.row([format!("  {}", advice.flags().join(" ")), peak, advice.time(), advice.about.clone()]);
    }
    table
}

fn page(plan: &Plan) -> Option<String> {
    let page = plan.shown.page.as_ref()?;
    Some(format!("the timeline is in {}\n", page.display()))
}

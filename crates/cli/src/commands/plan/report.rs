//! A plan as people read it.

use oomph_core::Bytes;
use oomph_memory::Category;

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
    let device = match (plan.limit_bytes, &plan.shown.reserve) {
        (None, _) => plan.device.clone(),
        (Some(limit), None) => format!("{} with {limit}", plan.device),
        (Some(limit), Some(reason)) => format!("{} with {limit} ({reason}, less a reserve)", plan.device),
    };
    let rules = if plan.rules_verified { "" } else { " · cuda rules unverified" };
    let micro_batch = (plan.micro_batch < plan.shown.batch).then_some(plan.micro_batch);
    let micro_batch = micro_batch.map(|size| format!(" · micro-batch {}", grouped(size)));
    format!(
        "{} · {} · {} · {}{}\non {device}{rules} · planned in {:.0} ms\n",
        plan.model,
        plan.shown.sample,
        plan.policy,
        plan.optimizer,
        micro_batch.unwrap_or_default(),
        plan.plan_seconds * 1000.0
    )
}

fn table(plan: &Plan) -> Table<10> {
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
        Align::Left,
    ]);
    let fits = plan.limit_bytes.map(|limit| limit.to_string()).unwrap_or_default();
    table.heading([
        "batch",
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
            Some(planned) => row(plan, batch.batch, planned),
            None => refused(batch),
        };
        if batch.batch == plan.shown.batch { table.strong(row) } else { table.row(row) }
    }
    table
}

/// A batch that the model cannot be trained on.
fn refused(batch: &PlannedBatch) -> [String; 10] {
    let mut row: [String; 10] = Default::default();
    row[0] = grouped(batch.batch);
    row[9] = batch.refused.clone().unwrap_or_default();
    row
}

fn row(plan: &Plan, batch: usize, planned: &Planned) -> [String; 10] {
    let of = |category| match planned.categories.of(category) {
        bytes if bytes == Bytes::default() => "–".to_owned(),
        bytes => bytes.to_string(),
    };
    let verdict = match (planned.fits, plan.limit_bytes) {
        (Some(true), _) => "fits".to_owned(),
        (Some(false), Some(limit)) => missing(plan, planned.planned_peak_bytes, limit),
        _ => String::new(),
    };
    [
        grouped(batch),
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

fn missing(plan: &Plan, peak: Bytes, limit: Bytes) -> String {
    match peak.get().checked_sub(limit.get()) {
        Some(more) if more > 0 => format!("needs {} more", Bytes::new(more)),
        _ => format!("leaves less than {} free", margin(plan)),
    }
}

fn largest(plan: &Plan) -> String {
    let Some(limit) = plan.limit_bytes else {
        return "no limit is known: `--gpu 24GiB` or `--memory-limit` asks what fits\n".into();
    };
    let margin = format!("{} margin", margin(plan));
    match (plan.largest_batch, plan.largest_batch_planned_peak_bytes) {
        (Some(batch), Some(peak)) if batch >= plan.shown.train_samples => format!(
            "largest batch that fits: all {} samples there are to train on  ({peak} of {limit}, {margin})\n",
            grouped(batch)
        ),
        (Some(batch), Some(peak)) => {
            format!("largest batch that fits: {}  ({peak} of {limit}, {margin})\n", grouped(batch))
        }
        _ => format!("no batch fits {limit} with a {margin}\n"),
    }
}

/// `15 %`.
fn margin(plan: &Plan) -> String {
    percent(plan.margin).replace(".0 %", " %")
}

/// What a config whose batch does not fit can do.
fn further(plan: &Plan) -> Option<String> {
    use Align::{Left, Right};
    if plan.levers.is_empty() {
        return None;
    }
    let mut table = Table::new([Left, Right, Left, Left]);
    for advice in &plan.levers {
        let peak = format!("planned peak {}", advice.planned_peak_bytes);
        table.row([format!("  {}", advice.flags().join(" ")), peak, advice.time(), advice.about.clone()]);
    }
    Some(format!("to train with the config's batch of {} all the same:\n{table}", grouped(plan.shown.batch)))
}

fn page(plan: &Plan) -> Option<String> {
    let page = plan.shown.page.as_ref()?;
    Some(format!("the timeline is in {}\n", page.display()))
}

use std::path::PathBuf;

use oomph_core::{Bytes, printable};
use oomph_timeline::Category;

use super::{
    batch_plan::{BatchPlan, PlannedBatch, PlannedPeak},
    levers::{lever_table, margin, verdict},
};
use crate::{
    numbers::{elapsed, grouped, rate, step_time},
    stream,
    table::{
        Column::{Left, Right},
        Table, folded,
    },
};

pub(super) fn report(plan: &BatchPlan) -> String {
    let parts = [
        Some(head(plan)),
        Some(table(plan).within(stream::columns())),
        chosen(plan),
        Some(largest(plan)),
        time(plan),
        levers(plan),
        files(plan),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

/// `resnet50 · image 3×224×224 · fp32 · sgd`, and the devices on a second line.
fn head(plan: &BatchPlan) -> String {
    let micro_batch = (plan.micro_batch < plan.text.share && !has_auto(plan)).then_some(plan.micro_batch);
    let micro_batch = micro_batch.map(|size| format!(" · micro-batch {}", grouped(size)));
    let what = format!(
        "{} · {} · {} · {}{}",
        plan.model,
        plan.text.sample,
        plan.policy,
        plan.optimizer,
        micro_batch.unwrap_or_default()
    );
    let place = format!("{} · planned in {:.0} ms", plan.text.place, plan.seconds.plan_seconds * 1000.0);
    let columns = stream::columns();
    format!("{}\n{}\n", folded(&what, columns), folded(&place, columns))
}

fn table(plan: &BatchPlan) -> Table<14> {
    let fits = plan.limit_bytes.map(|limit| limit.to_string()).unwrap_or_default();
    let mut table = Table::new([
        Right("batch"),
        Right(if plan.world_size > 1 { "per device" } else { "" }),
        Right("step"),
        Right("planned peak"),
        Right("reserved"),
        Right("parameters"),
        Right("gradients"),
        Right("optimizer state"),
        Right("activations"),
        Right("inputs"),
        Right("workspace"),
        Right("other"),
        Right("in host memory"),
        Left(&fits),
    ]);
    for batch in &plan.batches {
        let row = match &batch.planned {
            Some(planned) => row(plan, batch, planned),
            None => refused(batch),
        };
        if batch.batch == plan.text.batch { table.strong(row) } else { table.row(row) }
    }
    let reserves = |batch: &PlannedBatch| {
        batch.planned.as_ref().is_some_and(|planned| planned.planned_reserved_bytes.is_some())
    };
    let is_timed =
        |batch: &PlannedBatch| batch.planned.as_ref().is_some_and(|it| it.planned_step_seconds.is_some());
    let offloads = |batch: &PlannedBatch| {
        batch.planned.as_ref().is_some_and(|planned| planned.planned_offloaded_bytes.is_some())
    };
    let table = if plan.batches.iter().any(offloads) { table } else { table.without_column(12) };
    let table = if plan.batches.iter().any(reserves) { table } else { table.without_column(4) };
    let table = if plan.batches.iter().any(is_timed) { table } else { table.without_column(2) };
    if plan.world_size > 1 { table } else { table.without_column(1) }
}

/// What `auto` chooses for each batch.
fn chosen(plan: &BatchPlan) -> Option<String> {
    let mut table = Table::new([Right("batch"), Left("chosen by `auto`")]);
    for batch in &plan.batches {
        batch.auto.iter().for_each(|auto| table.row([grouped(batch.batch), auto.clone()]));
    }
    has_auto(plan).then(|| table.within(stream::columns()))
}

/// Whether `auto` chooses something for a batch.
fn has_auto(plan: &BatchPlan) -> bool {
    plan.batches.iter().any(|batch| batch.auto.is_some())
}

/// A batch that the model cannot be trained on.
fn refused(batch: &PlannedBatch) -> [String; 14] {
    let mut row: [String; 14] = Default::default();
    row[0] = grouped(batch.batch);
    row[13] = batch.refused.clone().unwrap_or_default();
    row
}

fn row(plan: &BatchPlan, batch: &PlannedBatch, planned: &PlannedPeak) -> [String; 14] {
    let of = |category| match planned.categories.of(category) {
        bytes if bytes == Bytes::default() => "–".to_owned(),
        bytes => bytes.to_string(),
    };
    let needed = planned.planned_reserved_bytes.unwrap_or(planned.planned_peak_bytes);
    let mut verdict = verdict(planned.fits, plan.rules.margin, needed, plan.limit_bytes);
    if !verdict.is_empty() && batch.batch > plan.text.train_samples && !plan.text.is_declared {
        verdict += &format!(", of {} samples", grouped(plan.text.train_samples));
    }
    [
        grouped(batch.batch),
        grouped(batch.samples_per_device),
        planned.planned_step_seconds.map(step_time).unwrap_or_default(),
        planned.planned_peak_bytes.to_string(),
        planned.planned_reserved_bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
        of(Category::Parameters),
        of(Category::Gradients),
        of(Category::OptimizerState),
        of(Category::Activations),
        of(Category::Inputs),
        of(Category::Workspace),
        of(Category::Other),
        planned.planned_offloaded_bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
        verdict,
    ]
}

fn largest(plan: &BatchPlan) -> String {
    let Some(limit) = plan.limit_bytes else {
        return "no memory limit is known; set one with `--gpu 24GiB` or `--memory-limit 24GiB`\n".into();
    };
    let margin = format!("{} margin", margin(plan.rules.margin));
    match (plan.largest_batch, plan.largest_batch_planned_peak_bytes) {
        (Some(batch), Some(peak)) => {
            let share = plan.text.largest_share.filter(|_| plan.world_size > 1);
            let share = share.map(|share| format!(", {} per device", grouped(share))).unwrap_or_default();
            let all = match (batch >= plan.text.train_samples, plan.text.is_declared) {
                (true, true) => format!("at least {}", grouped(batch)),
                (true, false) => format!("{} (the whole training set)", grouped(batch)),
                (false, _) => format!("{}{share}", grouped(batch)),
            };
            let largest = format!("largest batch that fits: {all}");
            let bytes = format!("({peak} of {limit}, {margin})");
            let width = largest.chars().count() + bytes.chars().count() + 2;
            let is_wide = stream::columns().is_some_and(|columns| width > columns);
            format!("{largest}{}{bytes}\n", if is_wide { "\n  " } else { "  " })
        }
        _ => format!("no batch fits {limit} with a {margin}\n"),
    }
}

/// The time of the config's training, and where times come from.
fn time(plan: &BatchPlan) -> Option<String> {
    let own =
        plan.batches.iter().find(|row| row.batch == plan.text.batch).and_then(|row| row.planned.as_ref());
    let step = own.and_then(|own| own.planned_step_seconds);
    let all = plan.seconds.training.as_ref().zip(step).map(|(time, step)| {
        format!(
            "planned time: {} a step, {} samples/s, {} an epoch, {} in all\n",
            step_time(step),
            rate(plan.text.batch as f64 / step),
            elapsed(time.planned_epoch_seconds),
            elapsed(time.planned_seconds)
        )
    });
    let speed = plan.text.speed.as_ref().map(|speed| format!("{speed}\n"));
    let lines: String = all.into_iter().chain(speed).collect();
    (!lines.is_empty()).then_some(lines)
}

/// The settings that make a batch fit which does not.
fn levers(plan: &BatchPlan) -> Option<String> {
    let batch = plan.way_out.levers_batch.filter(|_| !plan.way_out.levers.is_empty())?;
    let levers = lever_table(&plan.way_out.levers);
    let whose = if batch == plan.text.batch { "the config's batch of" } else { "batch" };
    Some(format!("{whose} {} fits with one of these settings:\n{levers}", grouped(batch)))
}

/// The timeline files, one a line.
fn files(plan: &BatchPlan) -> Option<String> {
    let written = |path: &PathBuf| format!("timeline written to {}\n", printable(path.display()));
    let files: String = plan.text.files.iter().map(written).collect();
    (!files.is_empty()).then_some(files)
}

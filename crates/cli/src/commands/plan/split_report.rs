use std::{collections::HashSet, path::PathBuf};

use oomph_config::{Balance, Cut};
use oomph_core::printable;
use oomph_parallel::diagram;
use oomph_timeline::Category;

use super::{
    levers::{lever_table, verdict},
    planner::Planner,
    split_plan::{Split, SplitPlan},
};
use crate::{
    numbers::{grouped, percent, stage_range},
    stream,
    table::{
        Column::{Left, Right},
        Table, folded,
    },
};

pub(super) fn report(planner: &Planner, split: &Split) -> String {
    let Split { plan, planned, files } = split;
    let count = match plan.micro_batches {
        1 => "1 micro-batch".to_owned(),
        count => format!("{} micro-batches", grouped(count)),
    };
    let columns = stream::columns();
    let what = format!("{} · {} · {} · {}", plan.model, plan.policy, plan.optimizer, planner.place());
    let head = format!(
        "{}\n{count} of {} · planned in {:.0} ms\n",
        folded(&what, columns),
        grouped(plan.micro_batch),
        plan.plan_seconds * 1000.0
    );
    // The maximum width of help texts.
    const WIDTH: usize = 100;
    let width = columns.map_or(WIDTH, |columns| columns.min(WIDTH));
    let parts = planned.parts.iter().enumerate();
    let names: Vec<String> = parts.map(|(index, _)| format!("{index} {}", planner.names[index])).collect();
    let drawn = diagram(&planned.trace, &names, width);
    let idle = format!("idle for about {} of forward and backward\n", percent(plan.idle_share));
    let advice = (plan.fits == Some(false)).then(|| advice(planner, plan));
    let files = files.as_ref().map(|(device, paths)| {
        let written = |path: &PathBuf| {
            format!("timeline of device {device} written to {}\n", printable(path.display()))
        };
        paths.iter().map(written).collect()
    });
    let parts =
        [Some(head), Some(table(plan).within(columns)), Some(format!("{drawn}\n{idle}")), advice, files];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

/// What the user can do if the part of a device does not fit.
fn advice(planner: &Planner, plan: &SplitPlan) -> String {
    let why = match planner.session.config.device.sharing.cut() {
        Some(Cut::Balanced(Balance::Memory)) => "no split of the model fits all devices",
        Some(Cut::Balanced(Balance::Time)) => {
            "`device.balance=memory` chooses the split with the lowest peak of the fullest device"
        }
        None => "the first device also coordinates; `device.coordinator_share` sets its share of the batch",
        Some(Cut::At(_)) => {
            "without `device.split_points` the planner chooses the split with the lowest peak of the fullest device"
        }
    };
    let fix = match plan.levers.is_empty() {
        true => "no setting makes it fit; use more devices, or larger ones\n".to_owned(),
        false => format!("it fits with one of these settings:\n{}", lever_table(&plan.levers)),
    };
    format!("it does not fit: {why}\n{fix}")
}

fn table(plan: &SplitPlan) -> Table<13> {
    let limits: HashSet<_> = plan.devices.iter().filter_map(|device| device.limit_bytes).collect();
    // A common limit is the heading of the verdict.
    let are_alike = limits.len() < 2;
    let fits = plan.limit_bytes.filter(|_| are_alike).map(|limit| limit.to_string()).unwrap_or_default();
    let mut table = Table::new([
        Right(""),
        Left("device"),
        Left("stages"),
        Right("planned peak"),
        Right("reserved"),
        Right("parameters"),
        Right("gradients"),
        Right("optimizer state"),
        Right("activations"),
        Right("in host memory"),
        Right("idle"),
        Right("limit"),
        Left(&fits),
    ]);
    for (index, device) in plan.devices.iter().enumerate() {
        let of = |category| device.categories.of(category).to_string();
        let limit = device.limit_bytes.filter(|_| !are_alike).map(|limit| limit.to_string());
        let needed = device.planned_reserved_bytes.unwrap_or(device.planned_peak_bytes);
        table.row([
            index.to_string(),
            device.device.clone(),
            stage_range(&device.stages),
            device.planned_peak_bytes.to_string(),
            device.planned_reserved_bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
            of(Category::Parameters),
            of(Category::Gradients),
            of(Category::OptimizerState),
            of(Category::Activations),
            device.planned_offloaded_bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
            percent(device.idle_share),
            limit.unwrap_or_default(),
            verdict(device.fits, plan.rules.margin, needed, device.limit_bytes),
        ]);
    }
    table.without_empty_columns()
}

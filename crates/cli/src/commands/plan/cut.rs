//! The plan of a model that is cut over several devices.

use std::time::Instant;

use oomph_core::Bytes;
use oomph_memory::{Category, Split};
use oomph_parallel::diagram;
use oomph_trainer::{PlannedCut, PlannedPart, fits};
use serde::Serialize;

use super::{Planner, optimizer};
use crate::{
    error::CliError,
    exit::Exit,
    numbers::{grouped, percent},
    output,
    table::{Align, Table},
};

/// What `--json` says.
#[derive(Serialize)]
struct CutPlan {
    model: String,
    optimizer: String,
    policy: String,
    strategy: Option<&'static str>,
    batch: usize,
    micro_batch: usize,
    micro_batches: usize,
    limit_bytes: Option<Bytes>,
    /// The share of forward and backward in which devices wait for others, by estimated times.
    idle_share: f64,
    devices: Vec<PlannedDevice>,
    plan_seconds: f64,
}

#[derive(Serialize)]
struct PlannedDevice {
    device: String,
    /// The first and the last.
    stages: [String; 2],
    planned_peak_bytes: Bytes,
    fits: Option<bool>,
    categories: Split,
    idle_share: f64,
}

/// Prints it; the flag is for JSON.
pub(super) fn show(
    planner: &Planner<'_>,
    cut: &PlannedCut,
    (start, is_json): (Instant, bool),
) -> Result<Exit, CliError> {
    let session = planner.session;
    let device = |(index, part): (usize, &PlannedPart)| {
        let categories = part.timeline.peak().categories;
        let planned_peak_bytes = categories.total();
        PlannedDevice {
            device: part.device.clone(),
            stages: part.names.clone(),
            planned_peak_bytes,
            fits: planner.limit_bytes.map(|limit| fits(planned_peak_bytes, limit, planner.backend)),
            categories,
            idle_share: cut.course.idle_share(index),
        }
    };
    let plan = CutPlan {
        model: session.architecture.name().to_owned(),
        optimizer: optimizer(&session.config.optimizer.kind),
        policy: session.describe_policy(planner.backend, planner.limit_bytes),
        strategy: session.config.device.sharing.name(),
        batch: cut.micro_batch * cut.micro_batches,
        micro_batch: cut.micro_batch,
        micro_batches: cut.micro_batches,
        limit_bytes: planner.limit_bytes,
        idle_share: cut.course.bubble(),
        devices: cut.parts.iter().enumerate().map(device).collect(),
        plan_seconds: start.elapsed().as_secs_f64(),
    };
    match is_json {
        true => output::print_json(&plan)?,
        false => output::print(&report(&plan, cut))?,
    }
    Ok(Exit::Success)
}

fn report(plan: &CutPlan, cut: &PlannedCut) -> String {
    let limit = plan.limit_bytes.map(|limit| format!(" with {limit} each")).unwrap_or_default();
    let head = format!(
        "{} · {} · {} · {} over {} devices{limit}\n{} micro-batches of {} · planned in {:.0} ms\n",
        plan.model,
        plan.policy,
        plan.optimizer,
        plan.strategy.unwrap_or_default(),
        plan.devices.len(),
        grouped(plan.micro_batches),
        grouped(plan.micro_batch),
        plan.plan_seconds * 1000.0
    );
    // As wide as help texts are at most.
    const WIDTH: usize = 100;
    let names: Vec<String> =
        cut.parts.iter().enumerate().map(|(index, part)| format!("{index} {}", part.device)).collect();
    let drawn = diagram(&cut.course, &names, WIDTH);
    let idle = format!("idle for about {} of forward and backward\n", percent(plan.idle_share));
    [head, table(plan).to_string(), format!("{drawn}\n{idle}")].join("\n")
}

fn table(plan: &CutPlan) -> Table<10> {
    use Align::{Left, Right};
    let mut table = Table::new([Right, Left, Left, Right, Right, Right, Right, Right, Right, Left]);
    let fits = plan.limit_bytes.map(|limit| limit.to_string()).unwrap_or_default();
    let heading = [
        "",
        "device",
        "stages",
        "planned peak",
        "parameters",
        "gradients",
        "optimizer state",
        "activations",
        "idle",
        &fits,
    ];
    table.heading(heading);
    for (index, device) in plan.devices.iter().enumerate() {
        let [first, last] = &device.stages;
        let stages = if first == last { first.clone() } else { format!("{first} … {last}") };
        let of = |category| device.categories.of(category).to_string();
        let fits = match device.fits {
            Some(true) => "fits",
            Some(false) => "does not fit",
            None => "",
        };
        table.row([
            index.to_string(),
            device.device.clone(),
            stages,
            device.planned_peak_bytes.to_string(),
            of(Category::Parameters),
            of(Category::Gradients),
            of(Category::OptimizerState),
            of(Category::Activations),
            percent(device.idle_share),
            fits.to_owned(),
        ]);
    }
    table
}

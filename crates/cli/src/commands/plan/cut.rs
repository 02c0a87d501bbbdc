//! The plan of a model that is cut over several devices.

use std::{collections::HashSet, path::Path, time::Instant};

use oomph_config::{Balance, Cut};
use oomph_core::Bytes;
use oomph_memory::{Category, Split, export};
use oomph_parallel::diagram;
use oomph_trainer::{Advice, PlanOptions, PlannedCut, PlannedPart, TrainError, advise, fits, plan_cut};
use serde::Serialize;

use super::{
    PlanArguments, Planner, optimizer,
    report::{lever_table, missing},
};
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
    rules_verified: bool,
    margin: f64,
    batch: usize,
    micro_batch: usize,
    micro_batches: usize,
    /// What each device may use; the least, where they differ.
    limit_bytes: Option<Bytes>,
    /// Whether every device can hold its part.
    fits: Option<bool>,
    /// The share of forward and backward in which devices wait for others, by estimated times.
    idle_share: f64,
    devices: Vec<PlannedDevice>,
    /// What makes it fit, where it does not.
    levers: Vec<Advice>,
    plan_seconds: f64,
}

#[derive(Serialize)]
struct PlannedDevice {
    device: String,
    /// The first and the last.
    stages: [String; 2],
    planned_peak_bytes: Bytes,
    limit_bytes: Option<Bytes>,
    fits: Option<bool>,
    categories: Split,
    idle_share: f64,
}

/// Plans one batch over the devices, and prints it.
pub(super) fn run(planner: &Planner, arguments: &PlanArguments, start: Instant) -> Result<Exit, CliError> {
    let batch = match arguments.batch[..] {
        [] => None,
        [batch] => Some(batch as usize),
        [..] => return Err(CliError::SeveralBatches),
    };
    let Some(cut) = plan_cut(&planner.session, PlanOptions { batch, ..planner.options() })? else {
        return Ok(Exit::Success);
    };
    let page = arguments.html.as_deref().map(|path| page(planner, &cut, path)).transpose()?;
    let mut plan = planned(planner, &cut);
    if plan.fits == Some(false) {
        plan.levers = levers(planner, &cut)?;
    }
    plan.plan_seconds = start.elapsed().as_secs_f64();
    match arguments.json {
        true => output::print_json(&plan)?,
        false => output::print(&report(planner, &plan, &cut, page))?,
    }
    Ok(Exit::Success)
}

/// Writes the timeline of the fullest device; what is said of it.
fn page(planner: &Planner, cut: &PlannedCut, path: &Path) -> Result<String, CliError> {
    let share = |part: &PlannedPart| {
        let limit = part.limit_bytes.map_or(1, Bytes::get).max(1);
        part.planned_peak_bytes().get() as f64 / limit as f64
    };
    let parts = cut.parts.iter().enumerate();
    let fullest = parts.max_by(|(_, one), (_, other)| share(one).total_cmp(&share(other)));
    let Some((index, part)) = fullest else { return Ok(String::new()) };
    let mut timeline = part.timeline.clone();
    timeline.device.clone_from(&planner.names[index]);
    output::write_file(path, |file| export::html(&export::Page::new(&timeline), file))?;
    Ok(format!("the timeline of device {index} is in {}\n", path.display()))
}

fn planned(planner: &Planner, cut: &PlannedCut) -> CutPlan {
    let session = &planner.session;
    let device = |(index, part): (usize, &PlannedPart)| {
        let categories = part.timeline.peak().categories;
        let planned_peak_bytes = categories.total();
        PlannedDevice {
            device: planner.names[index].clone(),
            stages: part.names.clone(),
            planned_peak_bytes,
            limit_bytes: part.limit_bytes,
            fits: part.limit_bytes.map(|limit| fits(planned_peak_bytes, limit, planner.backend)),
            categories,
            idle_share: cut.course.idle_share(index),
        }
    };
    let devices: Vec<_> = cut.parts.iter().enumerate().map(device).collect();
    let all_fit = devices.iter().map(|device| device.fits).collect::<Option<Vec<bool>>>();
    CutPlan {
        model: session.architecture.name().to_owned(),
        optimizer: optimizer(&session.config.optimizer.kind),
        policy: cut.policy.clone(),
        strategy: session.config.device.sharing.name(),
        rules_verified: planner.backend.is_verified(),
        margin: planner.backend.margin(),
        batch: cut.batch,
        micro_batch: cut.micro_batch,
        micro_batches: cut.micro_batches,
        limit_bytes: planner.limit_bytes,
        fits: all_fit.map(|fit| fit.into_iter().all(|fits| fits)),
        idle_share: cut.course.bubble(),
        devices,
        levers: Vec::new(),
        plan_seconds: 0.0,
    }
}

/// What makes it fit, where it does not. The smallest device's limit is what planned peaks are scaled to.
fn levers(planner: &Planner, cut: &PlannedCut) -> Result<Vec<Advice>, CliError> {
    let Some(limit) = planner.limit_bytes else { return Ok(Vec::new()) };
    let session = &planner.session;
    if cut.batch == session.largest_train_batch() {
        return Ok(advise(session, limit, planner.backend).levers);
    }
    // Another batch than the config's is to be set too.
    let batch = ("train.batch".to_owned(), cut.batch.to_string());
    let session = session.varied(std::slice::from_ref(&batch)).map_err(TrainError::from)?;
    let mut levers = advise(&session, limit, planner.backend).levers;
    for advice in &mut levers {
        if advice.settings.iter().all(|(key, _)| key != "train.batch") {
            advice.settings.insert(0, batch.clone());
        }
    }
    Ok(levers)
}

fn report(planner: &Planner, plan: &CutPlan, cut: &PlannedCut, page: Option<String>) -> String {
    let count = match plan.micro_batches {
        1 => "1 micro-batch".to_owned(),
        count => format!("{} micro-batches", grouped(count)),
    };
    let head = format!(
        "{} · {} · {} · {}\n{count} of {} · planned in {:.0} ms\n",
        plan.model,
        plan.policy,
        plan.optimizer,
        planner.place(),
        grouped(plan.micro_batch),
        plan.plan_seconds * 1000.0
    );
    // As wide as help texts are at most.
    const WIDTH: usize = 100;
    let names: Vec<String> =
        cut.parts.iter().enumerate().map(|(index, _)| format!("{index} {}", planner.names[index])).collect();
    let drawn = diagram(&cut.course, &names, WIDTH);
    let idle = format!("idle for about {} of forward and backward\n", percent(plan.idle_share));
    let further = (plan.fits == Some(false)).then(|| further(planner, plan));
    let parts = [Some(head), Some(table(plan).to_string()), Some(format!("{drawn}\n{idle}")), further, page];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

/// What there is to do where a device cannot hold its part.
fn further(planner: &Planner, plan: &CutPlan) -> String {
    let why = match planner.session.config.device.sharing.cut() {
        Some(Cut::Balanced(Balance::Memory)) => "no cut gives each device a part that it can hold",
        Some(Cut::Balanced(Balance::Time)) => {
            "`device.balance=memory` cuts so that the fullest device holds least"
        }
        None => {
            "the devices have different things to hold; `device.coordinator_share` says how much the first has to do"
        }
        Some(Cut::At(_)) => "without `device.cut` the planner cuts so that the fullest device holds least",
    };
    let fix = match plan.levers.is_empty() {
        true => "nothing that can be changed makes it fit but more devices, or larger ones\n".to_owned(),
        false => {
            format!("it fits with one of\n{}", lever_table(&plan.levers))
        }
    };
    format!("it does not fit: {why}\n{fix}")
}

fn table(plan: &CutPlan) -> Table<11> {
    use Align::{Left, Right};
    let mut table = Table::new([Right, Left, Left, Right, Right, Right, Right, Right, Right, Right, Left]);
    let limits: HashSet<_> = plan.devices.iter().filter_map(|device| device.limit_bytes).collect();
    // What is the same for all stands above the verdict.
    let are_alike = limits.len() < 2;
    let fits = plan.limit_bytes.filter(|_| are_alike).map(|limit| limit.to_string()).unwrap_or_default();
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
        "limit",
        &fits,
    ];
    table.heading(heading);
    for (index, device) in plan.devices.iter().enumerate() {
        let [first, last] = &device.stages;
        let stages = if first == last { first.clone() } else { format!("{first} … {last}") };
        let of = |category| device.categories.of(category).to_string();
        let limit = device.limit_bytes.filter(|_| !are_alike).map(|limit| limit.to_string());
        let fits = match (device.fits, device.limit_bytes) {
            (Some(true), _) => "fits".to_owned(),
            (Some(false), Some(limit)) => missing(plan.margin, device.planned_peak_bytes, limit),
            _ => String::new(),
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
            limit.unwrap_or_default(),
            fits,
        ]);
    }
    table.without_empty_columns()
}

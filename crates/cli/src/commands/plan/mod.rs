//! `oomph plan`: the planned peak memory of training, and which batches fit.

mod arguments;
mod batch_plan;
mod batch_report;
mod frontier;
mod levers;
mod planner;
mod split_plan;
mod split_report;

use std::time::Instant;

use oomph_trainer::{Registry, open_to_plan};

pub(crate) use self::arguments::PlanArguments;
use self::planner::Planner;
use crate::{
    error::CliError,
    exit::Exit,
    notices::Notices,
    output,
    progress::{Style, WaitingLine},
};

pub(crate) fn run(arguments: &PlanArguments, registry: &Registry) -> Result<Exit, CliError> {
    let start = Instant::now();
    arguments.overwrite.check(arguments.html.iter().chain(&arguments.svg))?;
    let (config, gpus) = arguments.load()?;
    let planner = Planner::new(open_to_plan(config, registry)?, gpus);
    if planner.session.source.is_declared() {
        let spec = planner.session.spec();
        Notices::default().note(format!(
            "the data is not there; planned for {} → {}, as declared",
            spec.input, spec.target
        ));
    }
    let waiting = WaitingLine::new(Style::choose(arguments.json, false), "planning");
    if arguments.fit {
        let plan = frontier::plan_fit(&planner, arguments)?;
        drop(waiting);
        return output::show(arguments.json, &plan, || plan.report());
    }
    if planner.session.has_uneven_devices() {
        let Some(mut split) = split_plan::plan(&planner, arguments)? else { return Ok(Exit::Success) };
        drop(waiting);
        split.plan.plan_seconds = start.elapsed().as_secs_f64();
        return output::show(arguments.json, &split.plan, || split_report::report(&planner, &split));
    }
    let mut plan = batch_plan::plan(&planner, arguments)?;
    drop(waiting);
    plan.seconds.plan_seconds = start.elapsed().as_secs_f64();
    output::show(arguments.json, &plan, || batch_report::report(&plan))
}

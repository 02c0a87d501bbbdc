//! `oomph plan --fit`: peak memory against time, by what `memory.fit = "auto"` would choose.

use std::{path::PathBuf, time::Instant};

use oomph_advice::planning::{
    Fitted, Frontier, PlanOptions, describe_settings, fits, frontier, plan, plan_cut, with_choice,
};
use oomph_config::Change;
use oomph_core::{
    Bytes,
    printable::{printable, typed_setting},
};
use oomph_timeline::{
    Split, Timeline,
    export::{self, Comparison, ComparisonRow},
};
use serde::Serialize;

use super::{
    arguments::PlanArguments,
    levers::verdict,
    planner::{Planner, Rules},
};
use crate::{
    error::CliError,
    numbers::{grouped, percent, step_time},
    output, stream,
    table::{
        Column::{Left, Right},
        Table, folded,
    },
};

/// The frontier; as JSON.
#[derive(Debug, Serialize)]
pub(super) struct FitPlan {
    model: String,
    optimizer: String,
    /// The memory settings in words.
    policy: String,
    device: String,
    batch: usize,
    #[serde(flatten)]
    rules: Rules,
    limit_bytes: Option<Bytes>,
    /// The number of the point that `memory.fit = "auto"` chooses under the limit, from 0.
    chosen: Option<usize>,
    frontier: Vec<Point>,
    plan_seconds: f64,
    #[serde(skip)]
    place: String,
    #[serde(skip)]
    speed: Option<String>,
    #[serde(skip)]
    files: Vec<PathBuf>,
}

/// A combination of levers.
#[derive(Debug, Serialize)]
struct Point {
    /// The changed keys with their values.
    settings: Vec<(String, String)>,
    /// The planned peak of the fullest device.
    planned_peak_bytes: Bytes,
    /// The most bytes in host memory, with `memory.offload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    planned_offloaded_bytes: Option<Bytes>,
    /// What decides whether it fits.
    #[serde(skip)]
    needed_bytes: Bytes,
    fits: Option<bool>,
    categories: Split,
    /// Seconds of a step, if the speed of the device is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    planned_step_seconds: Option<f64>,
    /// The additional time of a step compared to the first point, as a share.
    slowdown: f64,
}

impl Point {
    /// `--set memory.micro_batch=8 --set memory.gradients=release`.
    fn flags(&self) -> String {
        let flags: Vec<_> = self.settings.iter().map(|(key, value)| typed_setting(key, value)).collect();
        if flags.is_empty() { "as configured".to_owned() } else { flags.join(" ") }
    }
}

pub(super) fn plan_fit(planner: &Planner, arguments: &PlanArguments) -> Result<FitPlan, CliError> {
    let start = Instant::now();
    let batch = arguments.batch.first().map_or(planner.session.config.train.batch, |batch| *batch as usize);
    let options = PlanOptions { batch: Some(batch), ..planner.options() };
    let options = PlanOptions { limit_bytes: planner.limit_bytes, ..options };
    let Frontier { points, chosen } = frontier(&planner.session, options)?;
    let first = points.first().map_or(0.0, |point| point.seconds);
    let point = |found: &Fitted| planner.point(found, options, first);
    let points: Vec<Point> = points.iter().map(point).collect::<Result<_, _>>()?;
    let mut plan = FitPlan {
        model: planner.session.architecture.name().to_owned(),
        optimizer: planner.optimizer(),
        policy: describe_settings(&planner.session),
        device: planner.names.join(","),
        batch,
        rules: planner.rules(),
        limit_bytes: planner.limit_bytes,
        chosen,
        frontier: points,
        plan_seconds: start.elapsed().as_secs_f64(),
        place: planner.place(),
        speed: planner.speed(),
        files: Vec::new(),
    };
    plan.files = plan.write(arguments)?;
    Ok(plan)
}

impl Planner {
    fn point(&self, found: &Fitted, options: PlanOptions, first: f64) -> Result<Point, CliError> {
        let session = with_choice(&self.session, &found.changes)?;
        let timeline = match plan_cut(&session, options)? {
            Some(cut) => cut.parts.into_iter().map(|part| part.timeline).max_by_key(Timeline::needed_bytes),
            None => Some(plan(&session, options)?),
        };
        // Every model has at least one stage, so a split has a part.
        let timeline = timeline.unwrap_or_else(|| unreachable!("a split model has parts"));
        let of_batch =
            options.batch.filter(|batch| *batch != self.session.config.train.batch).map(Change::Batch);
        let levers = found.changes.iter().filter(|change| !matches!(change, Change::Batch(_)));
        let is_known = self.session.speeds.known(self.backend).is_some() && session.world_size() == 1;
        Ok(Point {
            settings: of_batch.iter().chain(levers).map(Change::setting).collect(),
            planned_peak_bytes: timeline.peak().categories.total(),
            planned_offloaded_bytes: super::batch_plan::offloaded(&timeline),
            needed_bytes: found.planned_peak_bytes,
            fits: self.limit_bytes.map(|limit| fits(found.planned_peak_bytes, limit, self.backend)),
            categories: timeline.peak().categories,
            planned_step_seconds: is_known.then_some(found.seconds),
            slowdown: found.seconds / first - 1.0,
        })
    }
}

impl FitPlan {
    fn title(&self) -> String {
        format!("{} · batch {} · {} · {}", self.model, grouped(self.batch), self.policy, self.optimizer)
    }

    /// Writes the page of `--html`.
    fn write(&self, arguments: &PlanArguments) -> Result<Vec<PathBuf>, CliError> {
        let Some(path) = &arguments.html else { return Ok(Vec::new()) };
        let row = |point: &Point| ComparisonRow {
            name: point.flags().replace("--set ", ""),
            planned: Some(point.categories),
            step_seconds: point.planned_step_seconds,
            ..ComparisonRow::default()
        };
        let comparison = Comparison { title: self.title(), rows: self.frontier.iter().map(row).collect() };
        output::write_file(path, arguments.overwrite.existing(), |out| export::chart(&comparison, out))?;
        Ok(vec![path.clone()])
    }

    pub(super) fn report(&self) -> String {
        let columns = stream::columns();
        let place = format!("{} · planned in {:.0} ms", self.place, self.plan_seconds * 1000.0);
        let head = format!("{}\n{}\n", folded(&self.title(), columns), folded(&place, columns));
        let chosen = match (self.chosen, self.limit_bytes) {
            (Some(_), Some(_)) => "`memory.fit = \"auto\"` chooses the row with `chosen`\n".to_owned(),
            (None, Some(limit)) => format!("nothing fits {limit}\n"),
            (_, None) => {
                "no memory limit is known; set one with `--gpu 24GiB` or `--memory-limit 24GiB`\n".to_owned()
            }
        };
        let speed = self.speed.iter().map(|speed| format!("{speed}\n"));
        let files = self.files.iter().map(|path| format!("page written to {}\n", printable(path.display())));
        let table = self.table().without_empty_columns().within(columns);
        let last: String = [chosen].into_iter().chain(speed).chain(files).collect();
        [head, table, last].join("\n")
    }

    fn table(&self) -> Table<6> {
        let limit = self.limit_bytes.map(|limit| limit.to_string()).unwrap_or_default();
        let mut table = Table::new([
            Right("planned peak"),
            Right("in host memory"),
            Right("step"),
            Right("time"),
            Left(&limit),
            Left("settings"),
        ]);
        for (index, point) in self.frontier.iter().enumerate() {
            let cells = [
                point.planned_peak_bytes.to_string(),
                point.planned_offloaded_bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
                point.planned_step_seconds.map(step_time).unwrap_or_default(),
                if index == 0 { String::new() } else { format!("+{}", percent(point.slowdown.max(0.0))) },
                verdict(point.fits, self.rules.margin, point.needed_bytes, self.limit_bytes)
                    + if self.chosen == Some(index) { ", chosen" } else { "" },
                point.flags(),
            ];
            if self.chosen == Some(index) { table.strong(cells) } else { table.row(cells) }
        }
        table
    }
}

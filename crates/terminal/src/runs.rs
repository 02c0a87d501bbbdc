//! Runs as a table, and how their configurations differ.

use oomph_runs::{Difference, RunEvaluation, RunSummary};

use crate::{
    numbers::{date, decimal, elapsed, grouped, percent, rate},
    sparkline::sparkline,
    stream,
    table::{
        Column::{Left, Right},
        Table,
    },
};

const COLUMNS: usize = 12;
/// Characters of the curve of a run's loss.
const CURVE: usize = 12;

/// The table of runs, and with several paths the differences of their configs.
pub fn report(runs: &[RunSummary], differences: Option<&[Difference]>) -> String {
    let table = table(runs, differences.is_some());
    match differences {
        None => table,
        Some([]) => format!("{table}\nthe configs are equal\n"),
        Some(differences) => format!("{table}\n{}", differing(differences)),
    }
}

/// With `marks` the best value of each column is bold.
fn table(runs: &[RunSummary], marks: bool) -> String {
    let mut table = Table::new([
        Left("run"),
        Left("model"),
        Left("data"),
        Left("status"),
        Right("steps"),
        Left("loss"),
        Right("best"),
        Right("last"),
        Right("peak in use"),
        Right("samples/s"),
        Right("time"),
        Left("started"),
    ]);
    let best = least(runs, |run| Some(run.best?.eval_loss));
    let peak = least(runs, |run| Some(run.peak_in_use_bytes?.get() as f64));
    let speed = least(runs, |run| Some(-run.samples_per_second?));
    for (index, run) in runs.iter().enumerate() {
        let mut marked = [false; COLUMNS];
        for (column, winner) in [(6, best), (8, peak), (9, speed)] {
            marked[column] = marks && winner == Some(index);
        }
        table.marked(cells(run), marked);
    }
    table.within(stream::columns())
}

/// The index of the run with the smallest number.
fn least(runs: &[RunSummary], number: impl Fn(&RunSummary) -> Option<f64>) -> Option<usize> {
    let numbers = runs.iter().enumerate().filter_map(|(index, run)| Some((index, number(run)?)));
    numbers.min_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(index, _)| index)
}

fn cells(run: &RunSummary) -> [String; COLUMNS] {
    let missing = || "–".to_owned();
    let steps = run.steps.map(|steps| format!("/{}", grouped(steps))).unwrap_or_default();
    let training = || run.loss.map_or_else(missing, |loss| format!("{} (train)", decimal(loss)));
    [
        run.run_dir.display().to_string(),
        run.model.clone(),
        run.source.clone(),
        run.status.name().to_owned(),
        format!("{}{steps}", grouped(run.step)),
        curve(run).unwrap_or_else(missing),
        run.best.as_ref().map_or_else(missing, evaluation),
        run.last.as_ref().map_or_else(training, evaluation),
        run.peak_in_use_bytes.map_or_else(missing, |bytes| bytes.to_string()),
        run.samples_per_second.map_or_else(missing, rate),
        elapsed(run.seconds),
        run.started_unix_seconds.map_or_else(missing, date),
    ]
}

/// The curve of the training loss. `None` without a finite loss.
fn curve(run: &RunSummary) -> Option<String> {
    Some(sparkline(run.curves.losses(), CURVE)).filter(|curve| !curve.is_empty())
}

fn evaluation(evaluation: &RunEvaluation) -> String {
    let perplexity =
        evaluation.eval_perplexity.map(|perplexity| format!(", perplexity {}", decimal(perplexity)));
    let bits = evaluation.eval_bits_per_byte.map(|bits| format!(", {} bits per byte", decimal(bits)));
    let accuracy = evaluation.eval_accuracy.map(|accuracy| format!(", {}", percent(accuracy)));
    let more = [perplexity, bits, accuracy].map(Option::unwrap_or_default).concat();
    format!("{}{more}", decimal(evaluation.eval_loss))
}

fn differing(differences: &[Difference]) -> String {
    let mut table = Table::new([Left("different key"), Left("value"), Left("runs")]);
    for Difference { key: name, values } in differences {
        for (index, entry) in values.iter().enumerate() {
            let key = if index == 0 { name.clone() } else { String::new() };
            let value = entry.shown(name);
            let runs: Vec<_> = entry.runs.iter().map(|run| run.display().to_string()).collect();
            table.row([key, value, runs.join(", ")]);
        }
    }
    table.to_string()
}

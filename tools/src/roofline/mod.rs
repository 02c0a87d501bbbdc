//! How near the kernels of a training step come to the limit of the machine: the table of the roofline (Williams, Waterman and
//! Patterson 2009, <https://doi.org/10.1145/1498765.1498785>). Takes a minute.
//!
//! ```sh
//! cargo xtask roofline --save
//! cargo xtask roofline lstm            # one network, and nothing is saved
//! cargo xtask roofline --bf16          # steps in bf16
//! cargo xtask roofline --times lstm    # only the seconds of each kernel, as JSON, for tools/speed/builds.py
//! ```
//!
//! The step runs as in a training, and each of our operations is timed in its place (`oomph_kernels::timed`). Of several steps
//! the fastest time of each operation counts. An operation needs at least the time that the machine takes for its products, or
//! for its bytes if that is longer. The share is this time by the measured one.
//!
//! Products are those executed: Winograd's algorithm executes fewer than a convolution has. Bytes are those of inputs and outputs,
//! once each, as if they came from memory. What the caches hold takes less, so a share may exceed 100 %.

mod limits;
mod networks;
mod step;

use std::{collections::BTreeMap, process::ExitCode};

use burn::tensor::DType;
use oomph_plan::time::Work;
use serde_json::json;

use self::limits::Limits;
use crate::{
    Outcome,
    measured::{Measured, without_save},
};

pub(crate) use networks::NETWORKS;
pub(crate) use step::{Division, Step, step_of};

/// Operations that take less of a step share a row.
const LEAST: f64 = 0.01;

/// The first networks, which are those of the table.
const SAVED: usize = 2;

/// All operations of a kind in a step.
#[derive(Default)]
struct Row {
    count: usize,
    seconds: f64,
    /// Multiplications and additions.
    arithmetic: f64,
    bytes: f64,
    /// The seconds that the machine needs at least.
    least: f64,
}

/// Runs the tool.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let (arguments, is_saved) = without_save(arguments);
    let (flags, words): (Vec<_>, Vec<_>) = arguments.iter().partition(|argument| argument.starts_with("--"));
    if let Some(flag) = flags.iter().find(|flag| !["--times", "--bf16"].contains(&flag.as_str())) {
        return Err(format!("`{flag}` is no flag: expected `--save`, `--times` or `--bf16`").into());
    }
    let is_given = |flag: &str| flags.iter().any(|given| *given == flag);
    let format = if is_given("--bf16") { DType::BF16 } else { DType::F32 };
    let is_asked = |name: &str| words.iter().any(|word| name.to_lowercase() == word.to_lowercase());
    let all = NETWORKS.iter().take(if words.is_empty() { SAVED } else { NETWORKS.len() });
    let networks: Vec<_> = all.filter(|(name, _)| words.is_empty() || is_asked(name)).collect();
    if networks.is_empty() {
        let names = NETWORKS.map(|(name, _)| name.to_lowercase()).join("`, `");
        return Err(format!("no network is asked for: expected `{names}`").into());
    }
    if is_given("--times") {
        for (name, config) in networks {
            println!("{}", times(name, &step_of(config, format, Division::Measured)?));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let limits = Limits::measure(format);
    let titles =
        ["network", "operation", ">count", ">ms", ">of the step", ">GFLOP/s", ">GB/s", ">of the limit"];
    let (name, command) = match format {
        DType::BF16 => ("roofline-bf16", "roofline --bf16"),
        _ => ("roofline", "roofline"),
    };
    let mut table = Measured::begin(command, is_saved, &titles);
    for (name, config) in networks {
        add_rows(&mut table, name, step_of(config, format, Division::Measured)?, &limits);
    }
    for (name, rate) in [("vectors", limits.vectors), ("unit", limits.unit), ("bandwidth", limits.bandwidth)]
    {
        println!("{name}: {}", giga(rate));
        table.data.figures.insert(name.to_owned(), giga(rate));
    }
    table.end(name)?;
    Ok(ExitCode::SUCCESS)
}

/// The seconds of a step and of its kernels.
fn times(network: &str, step: &Step) -> serde_json::Value {
    let mut kernels: BTreeMap<String, f64> = BTreeMap::new();
    for operation in &step.operations {
        if let Some(work) = Work::of(&operation.operation) {
            *kernels.entry(work.kind).or_default() += operation.time.as_secs_f64();
        }
    }
    json!({ "network": network, "step": step.seconds, "kernels": kernels })
}

fn add_rows(table: &mut Measured, network: &str, step: Step, limits: &Limits) {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for operation in &step.operations {
        let Some(work) = Work::of(&operation.operation) else { continue };
        let is_by_unit = limits.unit > 0.0 && operation.products == 0 && work.arithmetic > 0.0;
        let kind = if is_by_unit { format!("{}, matrix unit", work.kind) } else { work.kind };
        let row = rows.entry(kind).or_default();
        let arithmetic = if is_by_unit { work.arithmetic } else { 2.0 * operation.products as f64 };
        let rate = if is_by_unit { limits.unit } else { limits.vectors };
        row.count += 1;
        row.seconds += operation.time.as_secs_f64();
        row.arithmetic += arithmetic;
        row.bytes += work.bytes;
        row.least += (arithmetic / rate).max(work.bytes / limits.bandwidth);
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by(|(_, one), (_, other)| other.seconds.total_cmp(&one.seconds));
    let share = |seconds: f64| format!("{:.0} %", seconds / step.seconds * 100.0);
    let mut rest = step.seconds;
    rows.retain(|(_, row)| row.seconds >= LEAST * step.seconds);
    for (kind, row) in rows {
        rest -= row.seconds;
        table.add(vec![
            network.to_owned(),
            kind,
            row.count.to_string(),
            format!("{:.1}", row.seconds * 1e3),
            share(row.seconds),
            giga(row.arithmetic / row.seconds),
            giga(row.bytes / row.seconds),
            format!("{:.0} %", row.least / row.seconds * 100.0),
        ]);
    }
    let of_rest = ["", &format!("{:.1}", rest * 1e3), &share(rest), "", "", ""].map(str::to_owned);
    table.add([network.to_owned(), "the rest".to_owned()].into_iter().chain(of_rest).collect());
}

/// A rate in 10⁹ a second.
fn giga(rate: f64) -> String {
    format!("{:.0}", rate / 1e9)
}

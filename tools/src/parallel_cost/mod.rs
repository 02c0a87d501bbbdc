//! Measures training on several CPU devices: the tables of docs/concepts/parallel.md. Each takes ten minutes.
//!
//! ```text
//! cargo xtask parallel-cost strategies --save      # five runs of each variant
//! cargo xtask parallel-cost buckets --save 7       # seven runs of each variant
//! ```
//!
//! `strategies` trains a model with each strategy on two and on four devices. `buckets` trains two replicas with several
//! bucket sizes; the largest holds all gradients, so that its all-reduce cannot overlap backward. Each training is a
//! process of its own, and the variants alternate. The tables show medians. Speed also shows the best run, which other
//! programs disturbed least.

mod run;

use std::{error::Error, fs, process::ExitCode};

use oomph::Bytes;
use run::{Run, alternated, median};

use crate::{
    Outcome,
    measured::{Measured, without_save},
};

const BATCH: usize = 64;
const STEPS: usize = 20;

const RESNET: &str = "
    model = { name = 'resnet18', stem = 'small', width = 32 }
    data = { source = 'digits', workers = 0, last_batch = 'drop' }
    optimizer = { name = 'sgd', lr = 0.01, momentum = 0.9 }
    ";

const WIDE_RESNET: &str = "
    model = { name = 'resnet18', stem = 'small', width = 64 }
    data = { source = 'digits', workers = 0, last_batch = 'drop' }
    optimizer = { name = 'sgd', lr = 0.01, momentum = 0.9 }
    ";

const LSTM: &str = "
    model = { name = 'lstm', hidden = 256, layers = 4 }
    data = { source = 'digits', layout = 'rows', workers = 0, last_batch = 'drop' }
    optimizer = { name = 'adamw', lr = 1e-3 }
    ";

/// Runs the tool.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let (arguments, is_saved) = without_save(arguments);
    let runs = arguments.get(1).map_or(Ok(5), |runs| runs.parse::<usize>())?.max(1);
    println!("load before: {}", load());
    let tables = match arguments.first().map(String::as_str) {
        Some("strategies") => vec![
            ("parallel-strategies-resnet", strategies("ResNet-18, width 32", RESNET, runs, is_saved)?),
            ("parallel-strategies-lstm", strategies("LSTM, 4 layers of 256", LSTM, runs, is_saved)?),
        ],
        Some("buckets") => vec![("parallel-buckets", buckets(runs, is_saved)?)],
        _ => return Err("expected `strategies` or `buckets`".into()),
    };
    println!("load after: {}", load());
    for (name, table) in tables {
        table.end(name)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The variants of `strategies` with their settings: one device, then each strategy on two and on four. One device also
/// runs with one thread and with the micro-batches of pipelines, four a device.
fn variants() -> Vec<(String, Vec<String>)> {
    let one = |name: &str, settings: &[&str]| {
        (format!("one device{name}"), settings.iter().map(|setting| (*setting).to_owned()).collect())
    };
    let mut variants = vec![
        one("", &[]),
        one(", one thread", &["device.threads=1"]),
        one(", micro-batches of 8", &["memory.micro_batch=8"]),
        one(", micro-batches of 4", &["memory.micro_batch=4"]),
    ];
    for devices in [2, 4] {
        let names = format!("device.devices={}", vec!["cpu"; devices].join(","));
        for (name, settings) in [
            ("ddp", &["device.strategy=ddp"][..]),
            ("dp", &["device.strategy=dp"]),
            ("model", &["device.strategy=model"]),
            ("pipeline, gpipe", &["device.strategy=pipeline", "device.schedule=gpipe"]),
            ("pipeline, 1f1b", &["device.strategy=pipeline", "device.schedule=1f1b"]),
            ("pipeline, 1f1b, balanced by time", &["device.strategy=pipeline", "device.balance=time"]),
        ] {
            let settings = settings.iter().map(|setting| (*setting).to_owned());
            variants.push((
                format!("{name}, {devices} devices"),
                [names.clone()].into_iter().chain(settings).collect(),
            ));
        }
    }
    variants
}

fn strategies(model: &str, recipe: &str, runs: usize, is_saved: bool) -> Result<Measured, Box<dyn Error>> {
    let (names, settings): (Vec<_>, Vec<_>) = variants().into_iter().unzip();
    let all = alternated(&recipe_of(recipe), &settings, runs)?;
    println!();
    let mut table = Measured::begin(
        "parallel-cost strategies",
        is_saved,
        &[model, ">samples/s", ">fastest", ">of one device", "peak of each device", "idle"],
    );
    let best = |runs: &[Run]| runs.iter().map(|run| run.samples_per_second).fold(0.0, f64::max);
    let alone = best(&all[0]);
    for (name, runs) in names.iter().zip(&all) {
        let peaks = of_each(runs, |run| &run.peak_bytes, |peak| Bytes::new(peak as u64).to_string());
        let idle = of_each(runs, |run| &run.idle_shares, |share| format!("{:.0} %", 100.0 * share));
        let (middle, best) = (median(runs, |run| run.samples_per_second), best(runs));
        let speed = [format!("{middle:.0}"), format!("{best:.0}"), format!("{:.2}", best / alone)];
        table.add([vec![name.clone()], speed.to_vec(), vec![peaks, idle]].concat());
    }
    Ok(table)
}

fn buckets(runs: usize, is_saved: bool) -> Result<Measured, Box<dyn Error>> {
    let mut table = Measured::begin(
        "parallel-cost buckets",
        is_saved,
        &["", ">gradients", ">bucket", ">step", ">fastest", ">in flight", ">waited for", ">hidden"],
    );
    add_buckets(&mut table, "ResNet-18, width 32", RESNET, runs)?;
    add_buckets(&mut table, "ResNet-18, width 64", WIDE_RESNET, runs)?;
    add_buckets(&mut table, "LSTM, 4 layers of 256", LSTM, runs)?;
    Ok(table)
}

/// Replicas on two devices with each bucket size.
fn add_buckets(table: &mut Measured, model: &str, recipe: &str, runs: usize) -> Result<(), Box<dyn Error>> {
    const SIZES: [(&str, &str); 4] =
        [("all", "1GiB"), ("25 MiB", "25MiB"), ("4 MiB", "4MiB"), ("1 MiB", "1MiB")];
    let settings = |(_, bucket): &(&str, &str)| {
        ["device.devices=cpu,cpu".into(), "device.strategy=ddp".into(), format!("device.bucket={bucket}")]
            .to_vec()
    };
    let all = alternated(&recipe_of(recipe), &SIZES.iter().map(settings).collect::<Vec<_>>(), runs)?;
    for ((size, _), runs) in SIZES.iter().zip(&all) {
        let gradients = Bytes::new(runs[0].parameters * size_of::<f32>() as u64);
        let seconds = |run: &Run| BATCH as f64 / run.samples_per_second;
        let (step, best) = (median(runs, seconds), runs.iter().map(seconds).fold(f64::INFINITY, f64::min));
        let [under_way, waited] =
            [0, 1].map(|of| median(runs, |run| run.all_reduce_seconds[of] / STEPS as f64));
        let hidden = median(runs, |run| 1.0 - run.all_reduce_seconds[1] / run.all_reduce_seconds[0]);
        let row = vec![
            model.to_owned(),
            gradients.to_string(),
            (*size).to_owned(),
            format!("{:.0} ms", 1e3 * step),
            format!("{:.0} ms", 1e3 * best),
            format!("{:.1} ms", 1e3 * under_way),
            format!("{:.1} ms", 1e3 * waited),
            format!("{:.0} %", 100.0 * hidden),
        ];
        table.add(row);
    }
    Ok(())
}

/// A recipe with the settings of all trainings.
fn recipe_of(recipe: &str) -> String {
    format!(
        "{recipe}
         train = {{ batch = {BATCH}, steps = {STEPS}, eval_every = 'never' }}
         run.save_every = 'never'"
    )
}

/// The medians of all devices; `–` without any.
fn of_each(runs: &[Run], of: impl Fn(&Run) -> &Vec<f64>, shown: impl Fn(f64) -> String) -> String {
    let devices = of(&runs[0]).len();
    let each: Vec<_> = (0..devices).map(|device| shown(median(runs, |run| of(run)[device]))).collect();
    if each.is_empty() { "–".into() } else { each.join(", ") }
}

/// The load of this machine, from `/proc/loadavg`.
fn load() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

//! What several devices bring and cost, rehearsed on the processor: the tables of docs/parallel.md.
//!
//! ```text
//! cargo build --release && cargo run --release --example parallel_cost -- strategies
//! cargo build --release && cargo run --release --example parallel_cost -- buckets
//! ```
//!
//! `strategies` trains one model with each of them on two and on four devices; `buckets` trains replicas on two devices
//! with buckets of several sizes, of which the largest takes all gradients, so that nothing of their all-reduce is done
//! while backward goes on. Every training is a process of its own, all ways in alternation and several times (five, or
//! as many as the second word says); the tables have medians, and of speed the best run too, which other programs on the
//! machine have disturbed least.

mod run;

use std::{env, error::Error, fs};

use oomph::Bytes;
use run::{Run, alternated, median};

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

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let table = arguments.next().unwrap_or_default();
    let runs = arguments.next().map_or(Ok(5), |runs| runs.parse::<usize>())?.max(1);
    println!("load before: {}", load());
    match table.as_str() {
        "strategies" => {
            strategies("ResNet-18, width 32", RESNET, runs)?;
            strategies("LSTM, 4 layers of 256", LSTM, runs)?;
        }
        "buckets" => {
            println!("| | gradients | bucket | step | at best | on their way | waited for | hidden |");
            println!("|---|---:|---:|---:|---:|---:|---:|---:|");
            buckets("ResNet-18, width 32", RESNET, runs)?;
            buckets("ResNet-18, width 64", WIDE_RESNET, runs)?;
            buckets("LSTM, 4 layers of 256", LSTM, runs)?;
        }
        _ => return Err("which table: `strategies` or `buckets`?".into()),
    }
    println!("load after: {}", load());
    Ok(())
}

/// Each strategy on two and on four devices, beside one device: with one thread, as each of several has, and with the
/// micro-batches that pipelines have.
fn strategies(model: &str, recipe: &str, runs: usize) -> Result<(), Box<dyn Error>> {
    let one = |name: &str, settings: &[&str]| {
        (format!("one device{name}"), settings.iter().map(|setting| (*setting).to_owned()).collect())
    };
    // A pipeline has four micro-batches a device.
    let mut ways: Vec<(String, Vec<String>)> = vec![
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
            ("pipeline, 1f1b, cut by time", &["device.strategy=pipeline", "device.balance=time"]),
        ] {
            let settings = settings.iter().map(|setting| (*setting).to_owned());
            ways.push((
                format!("{name}, {devices} devices"),
                [names.clone()].into_iter().chain(settings).collect(),
            ));
        }
    }
    let (names, settings): (Vec<_>, Vec<_>) = ways.into_iter().unzip();
    let all = alternated(&recipe_of(recipe), &settings, runs)?;
    println!("\n| {model} | samples/s | at best | of one device's best | peak of each device | idle |");
    println!("|---|---:|---:|---:|---|---|");
    let best = |runs: &[Run]| runs.iter().map(|run| run.samples_per_second).fold(0.0, f64::max);
    let alone = best(&all[0]);
    for (name, runs) in names.iter().zip(&all) {
        let peaks = of_each(runs, |run| &run.peak_bytes, |peak| Bytes::new(peak as u64).to_string());
        let idle = of_each(runs, |run| &run.idle_shares, |share| format!("{:.0} %", 100.0 * share));
        let (middle, best) = (median(runs, |run| run.samples_per_second), best(runs));
        println!("| {name} | {middle:.0} | {best:.0} | {:.2} | {peaks} | {idle} |", best / alone);
    }
    Ok(())
}

/// Replicas on two devices by the size of a bucket: milliseconds of a step.
fn buckets(model: &str, recipe: &str, runs: usize) -> Result<(), Box<dyn Error>> {
    const SIZES: [(&str, &str); 4] =
        [("all", "1GiB"), ("25 MiB", "25MiB"), ("4 MiB", "4MiB"), ("1 MiB", "1MiB")];
    let way = |(_, bucket): &(&str, &str)| {
        ["device.devices=cpu,cpu".into(), "device.strategy=ddp".into(), format!("device.bucket={bucket}")]
            .to_vec()
    };
    let all = alternated(&recipe_of(recipe), &SIZES.iter().map(way).collect::<Vec<_>>(), runs)?;
    for ((size, _), runs) in SIZES.iter().zip(&all) {
        let gradients = Bytes::new(runs[0].parameters * size_of::<f32>() as u64);
        let seconds = |run: &Run| BATCH as f64 / run.samples_per_second;
        let (step, best) = (median(runs, seconds), runs.iter().map(seconds).fold(f64::INFINITY, f64::min));
        let [way, waited] = [0, 1].map(|of| median(runs, |run| run.all_reduce_seconds[of] / STEPS as f64));
        let hidden = median(runs, |run| 1.0 - run.all_reduce_seconds[1] / run.all_reduce_seconds[0]);
        println!(
            "| {model} | {gradients} | {size} | {:.0} ms | {:.0} ms | {:.1} ms | {:.1} ms | {:.0} % |",
            1e3 * step,
            1e3 * best,
            1e3 * way,
            1e3 * waited,
            100.0 * hidden,
        );
    }
    Ok(())
}

/// A recipe with what all trainings have.
fn recipe_of(recipe: &str) -> String {
    format!(
        "{recipe}
         train = {{ batch = {BATCH}, steps = {STEPS}, eval_every = 'never' }}
         run.save_every = 'never'"
    )
}

/// The median of each device, one after the other; `–` where there is none.
fn of_each(runs: &[Run], of: impl Fn(&Run) -> &Vec<f64>, shown: impl Fn(f64) -> String) -> String {
    let devices = of(&runs[0]).len();
    let each: Vec<_> = (0..devices).map(|device| shown(median(runs, |run| of(run)[device]))).collect();
    if each.is_empty() { "–".into() } else { each.join(", ") }
}

/// How busy this machine is, where it tells.
fn load() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

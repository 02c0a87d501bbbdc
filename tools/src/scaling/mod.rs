//! How a training step scales to more cores than the machine has, by a simulation of its tasks. Takes five minutes.
//!
//! ```sh
//! cargo xtask scaling --save
//! cargo xtask scaling lstm             # one network, and nothing is saved
//! ```
//!
//! One thread does the work of a step, which is divided as for so many cores, and each task is timed
//! (`oomph_kernels::timed_for`). Then each core takes the next task of a region as soon as it is free, as the threads of a training do.
//! Between two regions all wait. What one thread did outside of tasks is alone in the simulation too.
//!
//! A region takes [`wake`] longer than its tasks, times the base-2 logarithm of the cores that share it: two threads of this machine took so
//! much longer for two tasks than for one. Cores share neither caches nor the bandwidth of the memory in the simulation, so it tells how far the
//! division of the work scales, and not how far the memory does.

mod cores;

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    hint,
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use burn::tensor::DType;
use oomph_kernels::TimedOperation;
use oomph_plan::time::Work;
use rayon::prelude::*;

use self::cores::makespan;
use crate::{
    Outcome,
    measured::{Measured, without_save},
    roofline::{Division, NETWORKS, Step, step_of},
};

/// The numbers of cores that are simulated.
const CORES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// The number of cores whose operations are told.
const TOLD: usize = 32;

/// Operations that lose less than this share of the step are not told.
const LEAST: f64 = 0.02;

/// The networks that are simulated if none is named.
const SAVED: [&str; 3] = ["ResNet-50", "LSTM", "GPT"];

/// A step, or an operation of it, on some cores.
#[derive(Clone, Copy, Default)]
struct Simulated {
    seconds: f64,
    /// Seconds in which one thread works alone.
    alone: f64,
    /// The sum of all tasks.
    tasks: f64,
}

/// Runs the tool.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let (words, is_saved) = without_save(arguments);
    let is_asked = |name: &str| match &words[..] {
        [] => SAVED.contains(&name),
        words => words.iter().any(|word| name.to_lowercase() == word.to_lowercase()),
    };
    let networks: Vec<_> = NETWORKS.iter().filter(|(name, _)| is_asked(name)).collect();
    if networks.is_empty() {
        let names = NETWORKS.map(|(name, _)| name.to_lowercase()).join("`, `");
        return Err(format!("no network is asked for: expected `{names}`").into());
    }
    let titles =
        ["network", ">cores", ">ms a step", ">times as fast", ">measured", ">one core alone", ">cores wait"];
    let mut steps = Measured::begin("scaling", is_saved, &titles);
    let mut operations = Vec::new();
    let wake = wake();
    for (name, config) in networks {
        add_steps(&mut steps, &mut operations, name, config, wake)?;
    }
    let microseconds = format!("{:.1}", wake * 1e6);
    println!("a region: {microseconds} µs");
    steps.data.figures.insert("region".to_owned(), microseconds);
    steps.end("scaling")?;
    let titles = [
        "network",
        "operation",
        ">ms",
        ">of the step",
        ">one core alone, ms",
        ">tasks of a region",
        ">cores at work",
    ];
    let mut table = Measured::begin("scaling", is_saved, &titles);
    operations.into_iter().for_each(|row| table.add(row));
    table.end("scaling-operations")?;
    Ok(ExitCode::SUCCESS)
}

/// Simulates the steps of a network.
fn add_steps(
    steps: &mut Measured,
    operations: &mut Vec<Vec<String>>,
    name: &str,
    config: &str,
    wake: f64,
) -> Result<(), Box<dyn Error>> {
    let [alone, together] = [Some(1), None].map(|threads| measured(name, threads));
    let (alone, together) = (alone?, together?);
    let mut one_core = None;
    for cores in CORES {
        let step = step_of(config, DType::F32, Division::Assumed(cores))?;
        let simulated = simulate(&step, cores, wake);
        let one_core = *one_core.get_or_insert(simulated.seconds);
        let is_measured = cores == rayon_cores();
        let waiting = 1.0 - (simulated.tasks + simulated.alone) / simulated.seconds / cores as f64;
        let of_alone = simulated.alone / simulated.seconds;
        // Of one core there is nothing but noise.
        let waits = (waiting - of_alone * (cores - 1) as f64 / cores as f64).max(0.0);
        steps.add(vec![
            name.to_owned(),
            cores.to_string(),
            format!("{:.1}", simulated.seconds * 1e3),
            format!("{:.2}", one_core / simulated.seconds),
            if is_measured { format!("{:.2}", alone / together) } else { String::new() },
            percent(of_alone),
            percent(waits),
        ]);
        if cores == TOLD {
            operations.extend(waiting_operations(name, &step, simulated.seconds, wake));
        }
    }
    Ok(())
}

/// Rows of the operations that keep cores waiting most.
fn waiting_operations(network: &str, step: &Step, seconds: f64, wake: f64) -> Vec<Vec<String>> {
    let mut kinds: BTreeMap<String, (Simulated, usize)> = BTreeMap::new();
    let (beside, _) = kinds.entry("beside our operations".to_owned()).or_default();
    *beside = beside_operations(step);
    for operation in &step.operations {
        let Some(work) = Work::of(&operation.operation) else { continue };
        let (sum, tasks) = kinds.entry(work.kind).or_default();
        let one = on_cores(operation, TOLD, wake);
        sum.seconds += one.seconds;
        sum.alone += one.alone;
        sum.tasks += one.tasks;
        *tasks = operation.regions.iter().map(Vec::len).fold(*tasks, usize::max);
    }
    let lost = |sum: &Simulated| sum.seconds - (sum.alone + sum.tasks) / TOLD as f64;
    let mut kinds: Vec<_> = kinds.into_iter().filter(|(_, (sum, _))| lost(sum) >= LEAST * seconds).collect();
    kinds.sort_by(|(_, (one, _)), (_, (other, _))| lost(other).total_cmp(&lost(one)));
    let row = |(kind, (sum, tasks)): (String, (Simulated, usize))| {
        vec![
            network.to_owned(),
            kind,
            format!("{:.2}", sum.seconds * 1e3),
            percent(sum.seconds / seconds),
            format!("{:.2}", sum.alone * 1e3),
            tasks.to_string(),
            format!("{:.1}", (sum.alone + sum.tasks) / sum.seconds),
        ]
    };
    kinds.into_iter().map(row).collect()
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A step on some cores.
fn simulate(step: &Step, cores: usize, wake: f64) -> Simulated {
    step.operations.iter().fold(beside_operations(step), |sum, operation| {
        let one = on_cores(operation, cores, wake);
        Simulated {
            seconds: sum.seconds + one.seconds,
            alone: sum.alone + one.alone,
            tasks: sum.tasks + one.tasks,
        }
    })
}

/// What is done beside our operations, by one thread.
fn beside_operations(step: &Step) -> Simulated {
    let timed: f64 = step.operations.iter().map(|operation| operation.time.as_secs_f64()).sum();
    let seconds = step.seconds - timed;
    Simulated { seconds, alone: seconds, tasks: 0.0 }
}

/// An operation on some cores.
fn on_cores(operation: &TimedOperation, cores: usize, wake: f64) -> Simulated {
    let tasks: f64 = operation.regions.iter().flatten().map(Duration::as_secs_f64).sum();
    let alone = operation.time.as_secs_f64() - tasks;
    let of_region = |tasks: &Vec<Duration>| {
        let together = cores.min(tasks.len()).max(1) as f64;
        makespan(tasks, cores).as_secs_f64() + wake * together.log2()
    };
    let regions: f64 = operation.regions.iter().map(of_region).sum();
    Simulated { seconds: alone + regions, alone, tasks }
}

/// The cores of this machine.
fn rayon_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The seconds of a step on this machine, by so many threads or one a core. The threads of a program are started once, so another one
/// measures.
fn measured(network: &str, threads: Option<usize>) -> Result<f64, Box<dyn Error>> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["roofline", "--times", network]);
    if let Some(threads) = threads {
        command.env("RAYON_NUM_THREADS", threads.to_string());
    }
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let told: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    told["step"].as_f64().ok_or_else(|| "the step has no time".into())
}

/// How much longer than a task two threads take to do two tasks at once, in seconds.
fn wake() -> f64 {
    const REGIONS: u32 = 5_000;
    const TASK: Duration = Duration::from_micros(50);
    let task = |_| {
        let begun = Instant::now();
        while begun.elapsed() < TASK {
            hint::spin_loop();
        }
    };
    // The program's own threads are one, which does all tasks.
    let Ok(pool) = rayon::ThreadPoolBuilder::new().num_threads(2).build() else { return 0.0 };
    pool.install(|| {
        let begun = Instant::now();
        (0..REGIONS).for_each(|_| (0..2).into_par_iter().for_each(task));
        (begun.elapsed() / REGIONS).saturating_sub(TASK).as_secs_f64()
    })
}

//! What the meter costs: processor time of training with the system's allocator, with the meter, and while it records.
//!
//! ```text
//! cargo build --release --examples && target/release/examples/meter_cost 7
//! ```
//!
//! Rounds alternate between the three, each in a process of its own; it prints the medians of the ratios of a round.
//! Processor time of all threads, since wall time tells more of the machine's other work.

mod work;

use std::{env, process::Command};

oomph_memory::install_meter!();

const STEPS: &str = "30";

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [mode, model] = arguments.as_slice() {
        if mode == "recording" {
            oomph_memory::record::start(100_000);
        }
        let steps = STEPS.parse().expect("a number");
        println!("{}", work::work(model, steps).expect("training works"));
        return;
    }
    let rounds: usize = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(7);
    for model in ["resnet", "lstm"] {
        let mut ratios = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            let plain = seconds("meter_cost_plain", &[model, STEPS]);
            for (mode, ratios) in ["metered", "recording"].into_iter().zip(&mut ratios) {
                ratios.push(seconds("meter_cost", &[mode, model]) / plain);
            }
        }
        let [metered, recording] = ratios.map(median);
        println!(
            "{model}: metered {:+.2} %, recording {:+.2} % (median of {rounds} rounds)",
            100.0 * (metered - 1.0),
            100.0 * (recording - 1.0)
        );
    }
}

fn seconds(program: &str, arguments: &[&str]) -> f64 {
    let mut path = env::current_exe().expect("this program has a path");
    path.set_file_name(program);
    let output =
        Command::new(&path).args(arguments).output().expect("`cargo build --release --examples` made it");
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().unwrap_or_else(|_| panic!("{program}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

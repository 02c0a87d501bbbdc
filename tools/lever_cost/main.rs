//! Holds what an out-of-memory report says of the time that a lever costs against the clock: trainings with smaller
//! micro-batches, beside the one with the whole batch, in one run of `oomph compare`.
//!
//! ```sh
//! cargo build --release && cargo run --release --example lever_cost
//! ```

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use oomph::{Config, Registry, Session, trainer};
use serde_json::Value;

/// A training, with the sizes into which its batch is cut.
const CASES: [(&str, &str, [usize; 4]); 4] = [
    (
        "resnet18 width 32, 32×32, batch 64",
        "model = { name = 'resnet18', stem = 'small', width = 32 }
         data = { source = 'synthetic', height = 32, width = 32 }
         train.batch = 64",
        [64, 32, 16, 4],
    ),
    (
        "resnet50 width 16, 64×64, batch 32, adam",
        "model = { name = 'resnet50', width = 16 }
         data = { source = 'synthetic', height = 64, width = 64 }
         optimizer.name = 'adam'
         train.batch = 32",
        [32, 16, 8, 2],
    ),
    (
        "lstm 256, 32 steps, batch 128",
        "model = { name = 'lstm', hidden = 256 }
         data = { source = 'synthetic', kind = 'sequence', steps = 32, features = 64 }
         train.batch = 128",
        [128, 64, 32, 8],
    ),
    (
        "lstm 1024, 8 steps, batch 64, adam",
        "model = { name = 'lstm', hidden = 1024 }
         data = { source = 'synthetic', kind = 'sequence', steps = 8, features = 64 }
         optimizer.name = 'adam'
         train.batch = 64",
        [64, 32, 16, 4],
    ),
];

fn main() {
    println!("| training | micro-batch | expected time | measured time |");
    println!("|---|---:|---:|---:|");
    for (name, config, sizes) in CASES {
        let expected = expected(config, sizes);
        let measured = measured(config, sizes);
        for ((size, expected), measured) in sizes.into_iter().zip(expected).zip(measured).skip(1) {
            println!("| {name} | {size} | {:+.0} % | {:+.0} % |", expected * 100.0, measured * 100.0);
        }
    }
}

/// How much longer each is expected to take than the first.
fn expected(config: &str, sizes: [usize; 4]) -> [f64; 4] {
    let config = Config::from_toml("lever_cost", config).expect("a valid configuration");
    let whole = Session::open_to_plan(config, &Registry::builtin()).expect("everything it names is there");
    sizes.map(|size| {
        let cut = whole.varied(&[("memory.micro_batch".into(), size.to_string())]).expect("a valid size");
        trainer::slowdown(&whole, &cut, trainer::backend(&whole)).expect("it can be trained")
    })
}

/// How much longer each takes.
fn measured(config: &str, sizes: [usize; 4]) -> [f64; 4] {
    let folder = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(folder.path().join("case.toml"), config).expect("a file");
    let sizes = sizes.map(|size| size.to_string()).join(",");
    let arguments =
        ["compare", "--config", "case.toml", "--micro-batches", &sizes, "--steps", "12", "--json"];
    let output = Command::new(program()).args(arguments).current_dir(folder.path()).output();
    let output = output.expect("`cargo build --release` made it");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = answer["rows"].as_array().expect("rows");
    let seconds: Vec<f64> = rows.iter().map(|row| row["step_seconds"].as_f64().expect("seconds")).collect();
    std::array::from_fn(|row| seconds[row] / seconds[0] - 1.0)
}

/// The release build beside this tool.
fn program() -> PathBuf {
    let own = std::env::current_exe().expect("this program has a path");
    own.parent().and_then(Path::parent).expect("it lies in target/release/examples").join("oomph")
}

//! Holds what `oomph find-batch` finds against the truth: the largest batch with which `oomph train` gets through its
//! first steps, an evaluation and a checkpoint, tried one batch after the other above the one that was found; and a
//! long training with that one.
//!
//! ```sh
//! cargo build --release && cargo run --release --example find_batch_truth -- --steps 300 --most-seconds 600
//! ```
//!
//! Prints a table, and fails where a batch that was found does not last, is less than 97 % of the largest, or took more
//! than six tries. `--only lstm` takes the cases with that in their names; a long training that would take more than
//! `--most-seconds` is left out, and the table says so.

mod cases;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode, Output},
    time::Instant,
};

use serde_json::Value;

use cases::{CASES, Case};

/// So many failures in a row above the last success end the search for the truth.
const FAILURES: usize = 3;

struct Options {
    steps: usize,
    most_seconds: f64,
    only: String,
}

impl Options {
    fn read() -> Self {
        let mut options = Self { steps: 300, most_seconds: f64::INFINITY, only: String::new() };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let value = arguments.next().unwrap_or_default();
            match argument.as_str() {
                "--steps" => options.steps = value.parse().expect("a number of steps"),
                "--most-seconds" => options.most_seconds = value.parse().expect("seconds"),
                "--only" => options.only = value,
                other => panic!("unknown argument `{other}`"),
            }
        }
        options
    }
}

fn main() -> ExitCode {
    let options = Options::read();
    println!("| case | limit | found | largest | share | tries | seconds | steps trained |");
    println!("|---|---:|---:|---:|---:|---:|---:|---|");
    let mut broken = 0;
    for case in CASES.iter().filter(|case| case.name.contains(&options.only)) {
        let row = Row::of(case, &options);
        println!("{}", row.text(case));
        broken += usize::from(!row.holds());
    }
    println!("\n{broken} broken promises");
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Row {
    found: usize,
    largest: usize,
    tries: usize,
    seconds: f64,
    /// Whether the long training lasted; `None` where it was left out.
    lasted: Option<bool>,
    steps: usize,
}

impl Row {
    fn of(case: &Case, options: &Options) -> Self {
        let folder = Folder::new(case);
        let start = Instant::now();
        let answer = folder.oomph(&["find-batch", "--max", "100000", "--json"]);
        let seconds = start.elapsed().as_secs_f64();
        let found: Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
        let batch = found["largest_batch"].as_u64().unwrap_or(0) as usize;
        let probes = found["probes"].as_array().cloned().unwrap_or_default();
        let step_seconds = probes
            .iter()
            .find(|probe| probe["batch"].as_u64() == Some(batch as u64))
            .and_then(|probe| probe["step_seconds"].as_f64())
            .unwrap_or(0.0);
        let lasts = step_seconds * options.steps as f64 <= options.most_seconds;
        let lasted = lasts.then(|| folder.trains(batch, options.steps, 50));
        Self {
            found: batch,
            largest: folder.largest_from(batch),
            tries: probes.len(),
            seconds,
            lasted,
            steps: options.steps,
        }
    }

    fn share(&self) -> f64 {
        self.found as f64 / self.largest.max(1) as f64
    }

    fn holds(&self) -> bool {
        self.found > 0
            && (0.97..=1.0).contains(&self.share())
            && self.tries <= 6
            && self.lasted != Some(false)
    }

    fn text(&self, case: &Case) -> String {
        let lasted = match self.lasted {
            Some(true) => self.steps.to_string(),
            Some(false) => "out of memory".into(),
            None => "not tried".into(),
        };
        let Self { found, largest, tries, seconds, .. } = self;
        let share = self.share();
        format!(
            "| {} | {} | {found} | {largest} | {share:.3} | {tries} | {seconds:.1} | {lasted} |",
            case.name, case.limit
        )
    }
}

/// A folder with a case's config, in which the program runs.
struct Folder {
    folder: tempfile::TempDir,
    limit: &'static str,
}

impl Folder {
    fn new(case: &Case) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(folder.path().join("case.toml"), case.config).expect("a file");
        Self { folder, limit: case.limit }
    }

    fn oomph(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(program());
        command.args(arguments).args(["--config", "case.toml", "--memory-limit", self.limit]);
        command.current_dir(self.folder.path()).output().expect("`cargo build --release` made it")
    }

    /// Whether a training gets through so many steps, with evaluations and checkpoints, within the limit.
    fn trains(&self, batch: usize, steps: usize, every: usize) -> bool {
        let run = self.folder.path().join("run");
        // Of a training before.
        let _ = std::fs::remove_dir_all(&run);
        let settings = [
            format!("train.batch={batch}"),
            format!("train.steps={steps}"),
            format!("train.eval_every={every} steps"),
            format!("run.save_every={every} steps"),
            "run.directory=run".to_owned(),
        ];
        let sets = settings.iter().flat_map(|setting| ["--set", setting]);
        let answer =
            self.oomph(&["train", "--quiet", "--no-plan-check"].into_iter().chain(sets).collect::<Vec<_>>());
        match answer.status.code() {
            Some(0) => true,
            Some(75) => false,
            _ => panic!("batch {batch}: {}", String::from_utf8_lossy(&answer.stderr)),
        }
    }

    /// The largest batch that trains, from one on.
    fn largest_from(&self, batch: usize) -> usize {
        let (mut largest, mut failures, mut next) = (batch, 0, batch + 1);
        while failures < FAILURES {
            if self.trains(next, 6, 3) {
                (largest, failures) = (next, 0);
            } else {
                failures += 1;
            }
            next += 1;
        }
        largest
    }
}

/// The release build beside this tool.
fn program() -> PathBuf {
    let own = std::env::current_exe().expect("this program has a path");
    let release = own.parent().and_then(Path::parent).expect("it lies in target/release/examples");
    release.join("oomph")
}

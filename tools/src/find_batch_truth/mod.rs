//! Compares the batch that `oomph find-batch` finds with the largest batch that trains.
//!
//! ```sh
//! cargo xtask find-batch-truth --save --steps 300 --most-seconds 240    # one hour; without a limit it takes hours
//! cargo xtask find-batch-truth --only lstm                              # the cases with `lstm` in their names
//! ```
//!
//! The tool tries every batch above the one found: `oomph train` must get through six steps, an evaluation and a
//! checkpoint. Then it trains `--steps` steps with the batch found, unless they would take more than `--most-seconds`.
//! It fails where that training runs out of memory, the batch found is less than 97 % of the largest, or the search took
//! more than six probes.

mod cases;

use std::{
    error::Error,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Output},
    time::Instant,
};

use serde_json::Value;

use cases::{Case, cases};

use crate::{
    Outcome,
    measured::{Measured, without_save},
    program,
};

/// So many batches in a row that fail end the search for the largest.
const FAILURES: usize = 3;

struct Options {
    steps: usize,
    most_seconds: f64,
    only: String,
}

impl Options {
    fn read(arguments: &[String]) -> Result<Self, Box<dyn Error>> {
        let mut options = Self { steps: 300, most_seconds: f64::INFINITY, only: String::new() };
        for pair in arguments.chunks(2) {
            let [name, value] = pair else { return Err(format!("`{}` has no value", pair[0]).into()) };
            match name.as_str() {
                "--steps" => options.steps = value.parse()?,
                "--most-seconds" => options.most_seconds = value.parse()?,
                "--only" => options.only.clone_from(value),
                other => return Err(format!("unknown argument `{other}`").into()),
            }
        }
        Ok(options)
    }
}

/// Runs the tool.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let (arguments, is_saved) = without_save(arguments);
    let options = Options::read(&arguments)?;
    let oomph = program::oomph()?;
    let mut table = Measured::begin(
        "find-batch-truth",
        is_saved,
        &["case", ">limit", ">found", ">largest", ">share", ">probes", ">seconds", "steps trained"],
    );
    let (mut broken, mut least_share, mut most_probes) = (0, 1.0f64, 0);
    for case in cases().filter(|case| case.name.contains(&options.only)) {
        let row = Row::of(&oomph, &case, &options);
        table.add(row.cells(&case));
        broken += usize::from(!row.holds());
        (least_share, most_probes) = (least_share.min(row.share()), most_probes.max(row.tries));
    }
    println!("\n{broken} broken promises");
    table.data.figures.insert("least_share".into(), format!("{:.1} %", 100.0 * least_share));
    table.data.figures.insert("most_probes".into(), most_probes.to_string());
    table.end("find-batch-truth")?;
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Row {
    found: usize,
    largest: usize,
    tries: usize,
    seconds: f64,
    /// Whether the long training reached its last step; `None` where it was left out.
    lasted: Option<bool>,
    steps: usize,
}

impl Row {
    fn of(oomph: &Path, case: &Case, options: &Options) -> Self {
        let folder = Folder::new(oomph, case);
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

    fn cells(&self, case: &Case) -> Vec<String> {
        let lasted = match self.lasted {
            Some(true) => self.steps.to_string(),
            Some(false) => "out of memory".into(),
            None => "not tried".into(),
        };
        vec![
            case.name.into(),
            case.limit.into(),
            self.found.to_string(),
            self.largest.to_string(),
            format!("{:.3}", self.share()),
            self.tries.to_string(),
            format!("{:.1}", self.seconds),
            lasted,
        ]
    }
}

/// A folder with the config of a case, in which `oomph` runs.
struct Folder {
    oomph: PathBuf,
    folder: tempfile::TempDir,
    limit: &'static str,
}

impl Folder {
    fn new(oomph: &Path, case: &Case) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(folder.path().join("case.toml"), &case.config).expect("a file");
        Self { oomph: oomph.to_owned(), folder, limit: case.limit }
    }

    fn oomph(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.oomph);
        command.args(arguments).args(["--config", "case.toml", "--memory-limit", self.limit]);
        command.current_dir(self.folder.path()).output().expect("`oomph` starts")
    }

    /// Whether a training gets through `steps` within the limit, with an evaluation and a checkpoint every `every` steps.
    fn trains(&self, batch: usize, steps: usize, every: usize) -> bool {
        let run = self.folder.path().join("run");
        // An earlier training may have left it.
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

    /// The largest batch that trains, at least `batch`.
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

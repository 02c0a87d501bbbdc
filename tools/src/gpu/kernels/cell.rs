//! A card with a version of CUDA: its trainings, their kernels, and what `ptxas` says of those.

use std::{
    collections::BTreeSet,
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use oomph_cuda_sim::{
    card::Card,
    kernels::{FAILED, PTX},
    ptx,
    ptxas::{self, Usage},
    report::Report,
};
use oomph_tree::Tree;

use super::grid::{SERIES, Training};
use crate::gpu::{Simulation, toolkit::Toolkit};

/// A card with a version of CUDA.
pub(super) struct Cell<'a> {
    pub(super) card: &'static Card,
    pub(super) toolkit: &'static Toolkit,
    pub(super) simulation: Simulation<'a>,
    /// As `CUDA_SIM_FAULTS` takes them.
    pub(super) faults: &'a str,
}

/// What was found in a cell.
#[derive(Default)]
pub(super) struct Findings {
    card: String,
    architectures: BTreeSet<String>,
    cuda: String,
    /// Those that came to their end.
    trainings: usize,
    /// Distinct kernels, with those that were not compiled.
    pub(super) kernels: usize,
    pub(super) not_compiled: usize,
    over_a_limit: usize,
    most_registers: u32,
    spilling: usize,
    most_shared_bytes: u64,
    /// Everything that makes the tool fail, a line each.
    pub(super) problems: Vec<String>,
}

impl Cell<'_> {
    /// Runs the trainings and looks at their kernels. Replaces what an earlier run left.
    pub(super) fn run(&self, trainings: &[Training]) -> Result<Findings, Box<dyn Error>> {
        let name = format!("{} CUDA {}", self.card.model, self.toolkit.version);
        let folder = self.simulation.setup.folder.join("kernels").join(name.replace(' ', "-"));
        prepare(&folder)?;
        let mut findings = Findings {
            card: self.card.model.to_owned(),
            cuda: self.toolkit.version.to_owned(),
            ..Findings::default()
        };
        // oomph refuses bf16 on older cards.
        let has_bf16 = self.card.capability >= (8, 0);
        let trainings = trainings.iter().filter(|training| has_bf16 || !training.needs_bf16());
        for training in trainings.clone() {
            let before = findings.problems.len();
            self.train(training, &folder, &mut findings)?;
            for problem in &findings.problems[before..] {
                eprintln!("{name}: {}: {problem}", training.label());
            }
        }
        let before = findings.problems.len();
        self.examine(&folder.join("kernels"), &mut findings)?;
        for problem in &findings.problems[before..] {
            eprintln!("{name}: {problem}");
        }
        eprintln!(
            "{name}: {} of {} trainings, {} kernels, {} of them not compiled",
            findings.trainings,
            trainings.count(),
            findings.kernels,
            findings.not_compiled
        );
        Ok(findings)
    }

    fn train(
        &self,
        training: &Training,
        folder: &Path,
        findings: &mut Findings,
    ) -> Result<(), Box<dyn Error>> {
        let report = folder.join("report.json");
        let config = Tree::own().root().join(format!("configs/{}.toml", training.config));
        let output = self
            .simulation
            .command(&folder.join("cache"))
            .current_dir(folder)
            .args(["train", "--quiet", "--devices", &training.devices(), "--config"])
            .arg(config)
            .args(training.settings.iter().flat_map(|setting| ["--set", setting]))
            .env("CUDA_SIM_CARDS", format!("{}x{}", training.cards(), self.card.model))
            .env("CUDA_SIM_MODE", "count")
            .env("CUDA_SIM_FAULTS", self.faults)
            .env("CUDA_SIM_KERNELS", folder.join("kernels"))
            .env("CUDA_SIM_REPORT", &report)
            .output()?;
        if output.status.success() {
            findings.trainings += 1;
        } else {
            let text = String::from_utf8_lossy(&output.stderr);
            let is_error = |line: &&str| line.starts_with("error") || line.contains("panicked");
            let line = text.lines().find(is_error).or(text.lines().last()).unwrap_or("no message");
            findings.problems.push(format!("{}: {}", output.status, cut(line)));
        }
        // A training that failed early has not used a card, and writes none.
        if let Ok(text) = fs::read(&report) {
            findings.add(&serde_json::from_slice(&text)?);
            fs::remove_file(report)?;
        }
        // Checkpoints: of no use, and large.
        missing_or(fs::remove_dir_all(folder.join("runs")))?;
        Ok(())
    }

    /// Counts the kernels that the driver kept, and assembles them.
    fn examine(&self, folder: &Path, findings: &mut Findings) -> Result<(), Box<dyn Error>> {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        paths.sort();
        for path in paths {
            let ending = path.extension().unwrap_or_default();
            if ending == FAILED {
                let text = fs::read_to_string(&path)?;
                let message = text.lines().find(|line| line.contains("error")).unwrap_or("no message");
                findings.kernels += 1;
                findings.not_compiled += 1;
                findings.problems.push(format!("`{}`: {}", path.display(), cut(message)));
            } else if ending == PTX {
                findings.kernels += 1;
                self.assemble(&path, findings)?;
            }
        }
        Ok(())
    }

    fn assemble(&self, path: &Path, findings: &mut Findings) -> Result<(), Box<dyn Error>> {
        let text = fs::read_to_string(path)?;
        let architecture = ptx::target(&text).unwrap_or("none");
        let output = Command::new(&self.simulation.toolkit.assembler)
            .args(["--verbose", "--gpu-name", architecture, "--output-file", "/dev/null"])
            .arg(path)
            .output()?;
        let messages = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        findings.architectures.insert(architecture.to_owned());
        if !output.status.success() {
            let line = messages.lines().find(|line| !line.contains(": info")).unwrap_or("no message");
            findings.not_compiled += 1;
            findings.problems.push(format!("`{}`: {line}", path.display()));
            return Ok(());
        }
        let (usages, kernels) = (ptxas::read(&messages), ptx::kernels(&text));
        let with = |kernel: &ptx::Kernel| usages.iter().find(|usage| usage.kernel == kernel.name);
        for kernel in &kernels {
            match with(kernel) {
                Some(usage) => findings.add_usage(usage, usage.broken_limits(kernel)),
                None => findings.problems.push(format!("`{}`: ptxas says nothing of it", path.display())),
            }
        }
        Ok(())
    }
}

impl Findings {
    fn add(&mut self, report: &Report) {
        for card in &report.cards {
            self.most_shared_bytes = self.most_shared_bytes.max(card.most_shared_bytes);
            for (number, what) in [(card.refused_modules, "modules"), (card.refused_launches, "launches")] {
                if number > 0 {
                    self.problems.push(format!("the driver refused {number} {what}"));
                }
            }
        }
        if report.compile_failures > 0 {
            self.problems.push(format!("{} kernels were not compiled", report.compile_failures));
        }
    }

    fn add_usage(&mut self, usage: &Usage, broken: Vec<String>) {
        self.most_registers = self.most_registers.max(usage.registers);
        self.spilling += usize::from(usage.spilled_bytes > 0);
        self.over_a_limit += usize::from(!broken.is_empty());
        self.problems.extend(broken.iter().map(|limit| format!("{}: {limit}", usage.kernel)));
    }

    /// Its row in the table.
    pub(super) fn row(&self) -> Vec<String> {
        let architectures: Vec<_> = self.architectures.iter().map(String::as_str).collect();
        vec![
            self.card.clone(),
            architectures.join(", "),
            self.cuda.clone(),
            self.trainings.to_string(),
            self.kernels.to_string(),
            self.not_compiled.to_string(),
            self.over_a_limit.to_string(),
            self.most_registers.to_string(),
            self.spilling.to_string(),
            (self.most_shared_bytes / 1_024).to_string(),
        ]
    }
}

/// An empty folder, a cache between its trainings, and the file that some read.
fn prepare(folder: &Path) -> Result<(), Box<dyn Error>> {
    missing_or(fs::remove_dir_all(folder))?;
    fs::create_dir_all(folder.join("kernels"))?;
    // What a training compiled, the next loads.
    fs::write(folder.join("cubecl.toml"), "[compilation]\ncache = true\n")?;
    let rows = (0..400).map(|row| {
        let time = f64::from(row) / 10.0;
        format!("{},{}\n", time.sin(), time.cos())
    });
    fs::write(folder.join(SERIES), format!("sine,cosine\n{}", rows.collect::<String>()))?;
    Ok(())
}

/// The beginning of a line: Burn's errors hold the source of the kernel.
fn cut(line: &str) -> String {
    line.chars().take(300).collect()
}

/// What is missing need not be removed.
fn missing_or(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

//! Readers that open files of a run by their paths, as scripts do.

use std::{
    fs,
    path::{Path, PathBuf},
};

use oomph_core::Generator;
use serde_json::Value;

use super::{events, tally::Reading};
use crate::run_files::{Checkpoint, sha256};

/// A reader that has read before: some values only rise, or only fall.
#[derive(Debug)]
pub(super) struct Direct {
    /// Where it copies to: outside of the folder that holds the run.
    copy: PathBuf,
    latest: u64,
    best: Option<f64>,
    logged: u64,
}

impl Direct {
    pub(super) fn new(copy: PathBuf) -> Self {
        Self { copy, latest: 0, best: None, logged: 0 }
    }

    /// Reads in one of several ways: the reader's name, and what was read.
    pub(super) fn read(&mut self, run: &Path, random: &mut Generator) -> (&'static str, Reading) {
        match random.below(40) {
            0 => ("metrics.jsonl", settled(self.log(run))),
            1 => ("event files", settled(event_files(run))),
            2..6 => ("copy of a checkpoint", through(run, "latest", |path| copied(path, &self.copy))),
            6..20 => ("files through best", self.best(run)),
            _ => ("files through latest", self.latest(run)),
        }
    }

    fn latest(&mut self, run: &Path) -> Reading {
        through(run, "latest", |path| {
            let step = Checkpoint::read(path)?.step();
            if step < self.latest {
                return Err(format!("`latest` is of step {step}, and was of {}", self.latest));
            }
            self.latest = step;
            Ok(())
        })
    }

    fn best(&mut self, run: &Path) -> Reading {
        through(run, "best", |path| {
            let checkpoint = Checkpoint::read(path)?;
            let (step, stopping) = (checkpoint.step(), &checkpoint.state["progress"]["early_stopping"]);
            if stopping["best_step"].as_u64() != Some(step) {
                return Err(format!(
                    "`best` is of step {step}, but the best of it was {}",
                    stopping["best_step"]
                ));
            }
            let loss = stopping["best"].as_f64().filter(|loss| loss.is_finite());
            let loss = loss.ok_or("the checkpoint through `best` names no best value")?;
            if self.best.is_some_and(|best| loss > best) {
                return Err(format!("`best` has a loss of {loss}, and had {:?}", self.best));
            }
            self.best = Some(loss);
            Ok(())
        })
    }

    /// Every whole line is an event, and the steps that were saved rise, whatever process saved them.
    fn log(&mut self, run: &Path) -> Result<bool, String> {
        let Some(lines) = lines(run)? else { return Ok(false) };
        let mut saved = 0;
        for event in lines {
            let step = event["step"].as_u64().unwrap_or(0);
            match event["event"].as_str() {
                Some("started") => {
                    let first = event["first_step"].as_u64().unwrap_or(0);
                    if first < saved {
                        return Err(format!("a process starts from step {first} after {saved} was saved"));
                    }
                    saved = first;
                }
                Some("checkpoint") if step < saved => {
                    return Err(format!("step {step} was saved after {saved}"));
                }
                Some("checkpoint") => saved = step,
                Some(_) => {}
                None => return Err(format!("a line is no event: {event}")),
            }
        }
        if saved < self.logged {
            return Err(format!("the last step saved is {saved}, and was {}", self.logged));
        }
        self.logged = saved;
        Ok(true)
    }
}

/// The events of a run; `None` if there is no log yet. The last line may be incomplete.
pub(super) fn lines(run: &Path) -> Result<Option<Vec<Value>>, String> {
    let path = run.join("metrics.jsonl");
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(&path).map_err(|error| format!("metrics.jsonl: {error}"))?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let event = |line: &str| serde_json::from_str(line).map_err(|error| format!("`{line}`: {error}"));
    whole.lines().map(event).collect::<Result<_, _>>().map(Some)
}

fn event_files(run: &Path) -> Result<bool, String> {
    let entries = fs::read_dir(run).into_iter().flatten().flatten();
    let names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let mut is_any = false;
    for name in names.iter().filter(|name| name.starts_with("events.out.tfevents")) {
        let bytes = fs::read(run.join(name)).map_err(|error| format!("{name}: {error}"))?;
        is_any |= events::records(&bytes).map_err(|problem| format!("{name}: {problem}"))? > 0;
    }
    Ok(is_any)
}

fn settled(read: Result<bool, String>) -> Reading {
    match read {
        Ok(true) => Reading::Right,
        Ok(false) => Reading::Refused,
        Err(harm) => Reading::Harm(harm),
    }
}

/// Reads the checkpoint that a link names. It may fail only if the link names another one by then: a path does not keep
/// what it names.
fn through(run: &Path, link: &str, read: impl FnOnce(&Path) -> Result<(), String>) -> Reading {
    let link = run.join("checkpoints").join(link);
    let named = || fs::read_link(&link).ok();
    let Some(before) = named() else { return Reading::Refused };
    match read(&link.with_file_name(&before)) {
        Ok(()) => Reading::Right,
        Err(problem) if named() == Some(before) => Reading::Harm(problem),
        // Whoever finds something else than nothing has found a damaged checkpoint.
        Err(problem) if problem.contains("No such file") => Reading::Moved,
        Err(problem) => Reading::Harm(problem),
    }
}

/// Copies a checkpoint file by file, and verifies the copy.
fn copied(checkpoint: &Path, copy: &Path) -> Result<(), String> {
    let says = |error: std::io::Error| format!("copying: {error}");
    if copy.exists() {
        fs::remove_dir_all(copy).map_err(says)?;
    }
    fs::create_dir(copy).map_err(says)?;
    for entry in fs::read_dir(checkpoint).map_err(says)? {
        let entry = entry.map_err(says)?;
        fs::copy(entry.path(), copy.join(entry.file_name())).map_err(says)?;
    }
    let read = Checkpoint::read(copy)?;
    let config = fs::read(copy.join("config.toml")).map_err(says)?;
    if read.files.get("config.toml").is_some_and(|sum| *sum != sha256(&config)) {
        return Err("the config of the copy has another checksum".into());
    }
    Ok(())
}

//! What must hold in a run directory after a kill, and at the end.

use std::{fs, io, path::Path};

use super::reference::Reference;
use crate::{
    Arena, Error,
    run_files::{self, Checkpoint},
};

/// What a chain was told.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The last step that an event reported as saved.
    pub(super) saved: Option<u64>,
}

/// What is left of a save or of a removal.
pub(super) fn has_leftovers(run: &Path) -> io::Result<bool> {
    let folder = run.join("checkpoints");
    if !folder.is_dir() {
        return Ok(false);
    }
    for entry in fs::read_dir(folder)? {
        if entry?.file_name().as_encoded_bytes().starts_with(b".") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The newest of a run's checkpoints.
fn newest(checkpoints: &[Checkpoint]) -> Option<&Checkpoint> {
    checkpoints.iter().max_by_key(|it| it.state["save_number"].as_u64())
}

/// What is wrong with a run directory, at any moment.
pub(super) fn after_kill(run: &Path, reference: &Reference, told: &Told) -> io::Result<Vec<String>> {
    let (checkpoints, mut problems) = run_files::checkpoints(run)?;
    for link in ["latest", "best"] {
        if run.join("checkpoints").join(link).symlink_metadata().is_ok() {
            problems.extend(run_files::linked(run, link).err());
        }
    }
    problems.extend(checkpoints.iter().filter_map(|it| reference.difference(it)));
    let step = newest(&checkpoints).map(Checkpoint::step);
    if told.saved > step {
        problems.push(format!(
            "step {:?} was reported as saved, and the newest checkpoint is {step:?}",
            told.saved
        ));
    }
    let best = step.and_then(|step| reference.best(step));
    if let Some((best, _)) = best
        && !checkpoints.iter().any(|it| it.step() == best)
    {
        problems.push(format!("the best checkpoint is lost: step {best}, and the newest is {step:?}"));
    }
    problems.extend(broken_events(run)?);
    Ok(problems)
}

/// A line of `metrics.jsonl`, other than the last, that is not whole.
fn broken_events(run: &Path) -> io::Result<Option<String>> {
    let text = match fs::read(run.join("metrics.jsonl")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let mut lines: Vec<_> = text.split(|byte| *byte == b'\n').collect();
    lines.pop();
    let broken = lines.iter().position(|line| serde_json::from_slice::<serde_json::Value>(line).is_err());
    Ok(broken.map(|line| format!("line {} of metrics.jsonl is not whole", line + 1)))
}

/// What oomph itself says wrongly about what a kill left.
pub(super) fn as_oomph_reads(
    arena: &Arena,
    folder: &Path,
    reference: &Reference,
) -> Result<Vec<String>, Error> {
    let run = folder.join("run");
    let mut problems = Vec::new();
    let listed = arena.oomph(folder).arguments(["runs", "--json", "run"]).run()?;
    problems.extend(listed.harm().map(|harm| format!("`runs` {harm}")));
    let (checkpoints, _) = run_files::checkpoints(&run)?;
    let Some(newest) = newest(&checkpoints) else { return Ok(problems) };
    let rows: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
    // Its step is that of the events, which come before some saves and after others.
    let (row, step) = (&rows["runs"][0], newest.step());
    let is_listed = row["status"] == "killed" && row["steps"].as_u64() == Some(reference.last());
    if !listed.is_success() || !is_listed || rows["passed_over"].as_array().is_some_and(|it| !it.is_empty()) {
        problems.push(format!(
            "`runs` does not list the run at step {step} as killed: {row} {}",
            listed.last_words()
        ));
    }
    let words = ["evaluate", "--json", "--config", "x.toml", "--checkpoint", "run"];
    let answer = arena.oomph(folder).arguments(words).run()?;
    problems.extend(answer.harm().map(|harm| format!("`evaluate` {harm}")));
    let told: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
    let is_right = answer.is_success() && told["step"].as_u64() == Some(newest.step());
    if !is_right || answer.errors().contains("skipped") {
        problems.push(format!("`evaluate` does not take step {}: {}", newest.step(), answer.last_words()));
    }
    // An evaluation by the command adds the same samples in other batches, if at all.
    const TOLERANCE: f64 = 1e-4;
    let loss = told["eval_loss"].as_f64().unwrap_or(f64::NAN);
    if let Some(expected) = reference.evaluated(newest.step())
        && (loss.is_nan() || (loss - expected).abs() > TOLERANCE)
    {
        problems.push(format!("`evaluate` finds the loss {loss}, and the training found {expected}"));
    }
    Ok(problems)
}

/// What is wrong with a run directory after the training has ended by itself.
pub(super) fn at_end(run: &Path, reference: &Reference) -> io::Result<Vec<String>> {
    let mut problems = Vec::new();
    let (checkpoints, _) = run_files::checkpoints(run)?;
    let last = reference.last();
    let expected = [("latest", Some(last)), ("best", reference.best(last).map(|(step, _)| step))];
    for (link, step) in expected {
        let found = run_files::linked(run, link).map(|checkpoint| checkpoint.step());
        if found.as_ref().ok() != step.as_ref() {
            problems.push(format!("`{link}` is {found:?} and not step {step:?}"));
        }
    }
    if checkpoints.len() > reference.keep_last + 1 {
        problems.push(format!("{} checkpoints are left", checkpoints.len()));
    }
    if has_leftovers(run)? {
        problems.push("half-written files are left after the end".into());
    }
    Ok(problems)
}

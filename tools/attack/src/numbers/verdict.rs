//! What a training with a poison may leave: an error with its names and a whole checkpoint, or finite values.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::finite;
use crate::{
    answer::Answer,
    run_files::{self, Checkpoint},
};

/// How a training with a poison ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    /// With an error that names what was not finite.
    Named,
    /// Complete, with steps that fp16 skipped.
    Skipped,
    /// Complete, with finite values: the poison was absorbed.
    Absorbed,
}

/// What a training left.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) end: End,
    /// How many steps fp16 skipped.
    pub(super) skipped: u64,
    /// Its checkpoints, in order.
    pub(super) checkpoints: Vec<Checkpoint>,
    /// The step that the error names.
    pub(super) named_step: Option<u64>,
    /// The parameter, the state or the sample that the error names.
    pub(super) named: String,
}

/// Judges a training in the folder `folder`, whose run directory is `run`. The tensors of the checkpoint `spared` are
/// forged, so nothing is asked of them. The error is the harm.
pub(super) fn judge(answer: &Answer, folder: &Path, spared: Option<&Path>) -> Result<Left, String> {
    let run = folder.join("run");
    if let Some(harm) = answer.harm() {
        return Err(harm);
    }
    if let Some(problem) = finite::first_in_run(&run, spared) {
        return Err(format!(
            "not finite on disk: {problem} (exit code {:?}: {})",
            answer.code(),
            answer.last_words()
        ));
    }
    let (checkpoints, damaged) = run_files::checkpoints(&run).map_err(|error| error.to_string())?;
    if let Some(problem) = damaged.first() {
        return Err(format!("a damaged checkpoint is left: {problem}"));
    }
    match answer.code() {
        Some(0) => complete(&run, checkpoints),
        Some(1) => refused(answer, folder, checkpoints),
        code => Err(format!("exit code {code:?}: {}", answer.last_words())),
    }
}

fn complete(run: &Path, checkpoints: Vec<Checkpoint>) -> Result<Left, String> {
    let latest = run_files::linked(run, "latest")?;
    let done = last_event(run).filter(|event| event["event"] == "done").ok_or("no event says `done`")?;
    if done["step"].as_u64() != Some(latest.step()) {
        return Err(format!("it is done with step {}, and saved step {}", done["step"], latest.step()));
    }
    let skipped = done["skipped_steps"].as_u64().unwrap_or(0);
    let end = if skipped > 0 { End::Skipped } else { End::Absorbed };
    Ok(Left { end, skipped, checkpoints, named_step: None, named: String::new() })
}

/// An error must name what is not finite, and the last good checkpoint if there is one.
fn refused(answer: &Answer, folder: &Path, checkpoints: Vec<Checkpoint>) -> Result<Left, String> {
    let error = names(answer)?;
    let named_step = ["the loss of step ", "the gradients of step ", "step "]
        .iter()
        .find_map(|before| error.split_once(before)?.1.split(' ').next()?.parse().ok());
    let named = error.split('`').nth(1).unwrap_or_default().to_owned();
    if named_step.is_some() {
        kept(&error, folder, &checkpoints)?;
    } else if named.is_empty() {
        return Err(format!("the error names nothing: {}", answer.last_words()));
    }
    Ok(Left { end: End::Named, skipped: 0, checkpoints, named_step, named })
}

/// The words of an error, on one line, which must say what is not finite.
pub(super) fn names(answer: &Answer) -> Result<String, String> {
    const SAYS_WHAT: [&str; 8] = [
        "infinite or not a number",
        " is NaN",
        " is inf",
        " is -inf",
        "finite number",
        "`loss_scale",
        // Numbers that no state can have.
        "invalid type",
        "number out of range",
    ];
    let errors = answer.errors();
    // A long message goes over several lines of a terminal.
    let words = errors.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((_, error)) = words.split_once("error: ") else {
        return Err(format!("no `error:` among the words: {}", answer.last_words()));
    };
    match SAYS_WHAT.iter().any(|words| error.contains(words)) {
        true => Ok(error.to_owned()),
        false => Err(format!("the error does not say what is not finite: {}", answer.last_words())),
    }
}

/// The checkpoint that an error of a step names must be the newest, and whole.
fn kept(error: &str, folder: &Path, checkpoints: &[Checkpoint]) -> Result<(), String> {
    let named =
        error.split_once("the last good checkpoint is `").and_then(|(_, rest)| rest.split('`').next());
    match (named, checkpoints.last()) {
        (Some(named), newest) => {
            let path: PathBuf = folder.join(named);
            let whole =
                Checkpoint::read(&path).map_err(|problem| format!("the last good checkpoint: {problem}"))?;
            match newest {
                Some(newest) if newest.step() == whole.step() => Ok(()),
                _ => Err(format!("`{named}` is not the newest checkpoint")),
            }
        }
        (None, None) if error.contains("no checkpoint was saved before it") => Ok(()),
        (None, _) => {
            Err(format!("the error names no checkpoint, and {} are there: {error}", checkpoints.len()))
        }
    }
}

/// The last line of metrics.
fn last_event(run: &Path) -> Option<Value> {
    let metrics = std::fs::read_to_string(run.join("metrics.jsonl")).ok()?;
    serde_json::from_str(metrics.lines().last()?).ok()
}

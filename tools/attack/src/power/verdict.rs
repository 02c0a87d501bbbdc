//! Whether a state of the disk keeps what oomph promised, and what oomph makes of it.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;

use super::{
    disk::{Node, Tree},
    record::Recording,
    sequence::{Goal, STEPS, Sequence, save_number},
    states::State,
};
use crate::{
    Arena, Error,
    run_files::{Checkpoint, checkpoints, linked},
};

/// The training that never stopped.
#[derive(Debug)]
pub(super) struct Unbroken {
    /// The checksums of what was trained, by step.
    trained: BTreeMap<u64, BTreeMap<String, String>>,
    /// The lines of its log that a resumed run has too.
    lines: BTreeMap<(String, u64), String>,
}

fn trained(checkpoint: &Checkpoint) -> BTreeMap<String, String> {
    checkpoint.trained().into_iter().map(|(file, digest)| (file.clone(), digest.clone())).collect()
}

impl Unbroken {
    /// Reads its run directory.
    pub(super) fn read(run: &Path) -> Result<Self, Error> {
        let (whole, damaged) = checkpoints(run)?;
        if let Some(problem) = damaged.first() {
            return Err(problem.clone().into());
        }
        let trained = whole.iter().map(|it| (it.step(), trained(it))).collect();
        let lines = lines(&run.join("metrics.jsonl"))?;
        Ok(Self { trained, lines: lines.iter().filter_map(repeated).collect() })
    }
}

/// Event, step and loss of a line that a resumed run repeats with the same values.
fn repeated(line: &Value) -> Option<((String, u64), String)> {
    let event = line["event"].as_str().filter(|event| ["step", "eval"].contains(event))?;
    let loss = if event == "step" { &line["loss"] } else { &line["eval_loss"] };
    Some(((event.to_owned(), line["step"].as_u64()?), loss.to_string()))
}

/// The lines of a log, each of which is whole.
fn lines(log: &Path) -> Result<Vec<Value>, String> {
    let says = |problem: &dyn std::fmt::Display| format!("{}: {problem}", log.display());
    let bytes = fs::read(log).map_err(|error| says(&error))?;
    if bytes.last().is_some_and(|last| *last != b'\n') {
        return Err(says(&"the last line has no end"));
    }
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let read = |(number, line): (usize, &[u8])| {
        let shown = || oomph_core::printable(String::from_utf8_lossy(&line[..line.len().min(40)]));
        serde_json::from_slice(line).map_err(|error| says(&format!("line {number}: {error}: `{}`", shown())))
    };
    lines.enumerate().map(read).collect()
}

/// What is wrong with a state, by reading it alone.
pub(super) fn read(
    sequence: &Sequence,
    recording: &Recording,
    unbroken: &Unbroken,
    state: &State,
    folder: &Path,
) -> Result<Vec<String>, Error> {
    match sequence.goal {
        Goal::Training => training(unbroken, state, &folder.join("run")),
        Goal::File { path, is_flushed } => {
            let file = |tree: &Tree| tree.get(Path::new(path)).cloned();
            let is_new = |found: &Option<Node>| *found == file(&recording.after);
            let before = file(&recording.tree_before());
            let found = file(&state.tree);
            let is_right = is_new(&found) || (found == before && !(state.is_end && is_flushed));
            let what = match &found {
                None => "absent".to_owned(),
                Some(Node::File(content)) => format!("another file, of {} bytes", content.bytes.len()),
                Some(other) => format!("{other:?}"),
            };
            Ok(if is_right { Vec::new() } else { vec![format!("`{path}` is {what}")] })
        }
    }
}

fn training(unbroken: &Unbroken, state: &State, run: &Path) -> Result<Vec<String>, Error> {
    let (whole, damaged) = checkpoints(run)?;
    let mut harms: Vec<_> =
        damaged.iter().map(|problem| format!("half a checkpoint has a final name: {problem}")).collect();
    for checkpoint in &whole {
        if unbroken.trained.get(&checkpoint.step()) != Some(&trained(checkpoint)) {
            harms.push(format!("{}: other tensors than the unbroken run's", checkpoint.path.display()));
        }
    }
    let newest = whole.iter().map(save_number).max().unwrap_or(0);
    if newest < state.reported {
        harms.push(format!("save {} was reported, and save {newest} is the newest left", state.reported));
    }
    Ok(harms)
}

/// Whether oomph goes on from the state in a folder.
pub(super) fn go_on(
    arena: &Arena,
    sequence: &Sequence,
    unbroken: &Unbroken,
    folder: &Path,
) -> Result<Vec<String>, Error> {
    let run = folder.join("run");
    let newest = newest_of(&run)?;
    let answer = sequence.again(arena.oomph(folder)).run()?;
    if let Some(harm) = answer.harm() {
        return Ok(vec![harm]);
    }
    if !answer.is_success() {
        return Ok(vec![format!("oomph does not go on: {}", answer.last_words())]);
    }
    let Goal::Training = sequence.goal else { return Ok(Vec::new()) };
    let mut harms = Vec::new();
    match linked(&run, "latest") {
        Ok(last) if last.step() != STEPS as u64 => harms.push(format!("it ends at step {}", last.step())),
        Ok(last) if unbroken.trained.get(&last.step()) != Some(&trained(&last)) => {
            harms.push("it ends with other tensors than the unbroken run".to_owned());
        }
        Ok(_) => {}
        Err(problem) => harms.push(format!("after the resumed run, {problem}")),
    }
    match lines(&run.join("metrics.jsonl")) {
        Ok(lines) => harms.extend(log(&lines, unbroken, newest)),
        Err(problem) => harms.push(format!("the log is damaged after a resume: {problem}")),
    }
    let answer = arena.oomph(folder).arguments(["runs", "--json", "run"]).run()?;
    let listed: Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
    harms.extend(answer.harm());
    if listed["runs"][0]["status"] != "finished" {
        harms.push(format!("`oomph runs` does not list the run as finished: {}", answer.last_words()));
    }
    Ok(harms)
}

/// The step of the newest whole checkpoint.
fn newest_of(run: &Path) -> Result<Option<u64>, Error> {
    let (whole, _) = checkpoints(run)?;
    Ok(whole.iter().max_by_key(|it| save_number(it)).map(Checkpoint::step))
}

/// What is wrong with the log of a resumed run.
fn log(lines: &[Value], unbroken: &Unbroken, newest: Option<u64>) -> Vec<String> {
    let mut harms = Vec::new();
    let started = lines.iter().rfind(|line| line["event"] == "started");
    let first = started.and_then(|line| line["first_step"].as_u64());
    if first != Some(newest.unwrap_or(0)) {
        harms.push(format!("it went on from step {first:?}, and the newest checkpoint is of {newest:?}"));
    }
    let found: BTreeMap<_, _> = lines.iter().filter_map(repeated).collect();
    let lost: Vec<_> = unbroken.lines.iter().filter(|(key, _)| !found.contains_key(*key)).collect();
    if let Some(((event, step), _)) = lost.first() {
        harms.push(format!("the log lost {} lines: the first is `{event}` of step {step}", lost.len()));
    }
    let other = unbroken.lines.iter().find(|(key, loss)| found.get(*key).is_some_and(|it| it != *loss));
    if let Some(((event, step), loss)) = other {
        harms.push(format!("`{event}` of step {step} has another loss than {loss}"));
    }
    harms
}

//! What a command may do with a forged checkpoint.

use std::{fs, time::Duration};

use serde_json::Value;

use super::{CHECKPOINT, LAST_STEP, TEXT, change::Change, tensors::TensorFile};
use crate::{Answer, Arena, Error, Folder, run_files};

/// A command takes less, whatever the values say.
const MOST_TIME: Duration = Duration::from_secs(10);

/// The most memory that a command may hold, whatever the values say.
const MOST_MEMORY: u64 = 1 << 30;

/// The files of a checkpoint.
const FILES: [&str; 6] = [
    "config.toml",
    "source.json",
    "state.json",
    "model.safetensors",
    "optimizer.safetensors",
    "carried.safetensors",
];

/// A command line that reads a checkpoint.
pub(crate) fn arguments(command: &str, recipe: &str, checkpoint: &str) -> Vec<String> {
    let steps = format!("train.steps={LAST_STEP}");
    let words: Vec<&str> = match command {
        "resume" => vec!["train", "--resume", checkpoint, "--set", &steps],
        "resume the run" => vec!["train", "--resume", "run", "--set", &steps],
        "evaluate" => vec!["evaluate", "--checkpoint", checkpoint, "--json"],
        "predict" if recipe == TEXT => {
            vec!["predict", "--run", "run", "--checkpoint", "6", "--prompt", "the", "--length", "5", "--json"]
        }
        "predict" => vec!["predict", "--run", "run", "--checkpoint", "6", "image.png", "--json"],
        "export" => vec!["export", checkpoint, "--to", "out.safetensors"],
        _ => vec!["runs", "run", "--json"],
    };
    words.into_iter().map(str::to_owned).collect()
}

pub(crate) fn ask(arena: &Arena, folder: &Folder, arguments: &[String]) -> Result<Answer, Error> {
    Ok(arena.oomph(folder.path()).arguments(arguments).within(6 * MOST_TIME).run()?)
}

/// What holds for every command.
pub(crate) fn harm_of(answer: &Answer, change: &Change) -> Option<String> {
    if let Some(harm) = answer.harm() {
        return Some(harm);
    }
    if answer.wall > MOST_TIME {
        return Some(format!("it takes {} s", answer.wall.as_secs()));
    }
    if answer.peak_rss > MOST_MEMORY {
        return Some(format!("it takes {} MiB", answer.peak_rss >> 20));
    }
    let errors = answer.errors();
    // Tensors may make a loss infinite. Records of the data and of the progress are to be checked before a step.
    let is_late = errors.contains("the loss of step") || errors.contains("infinite or not a number (");
    if is_late && !change.names.iter().any(|name| name.ends_with(".safetensors")) {
        return Some(format!("noticed by a step alone: {}", answer.last_words()));
    }
    // What a hint names need not be what is wrong.
    let error = errors.split("\n\nhint:").next().unwrap_or_default();
    let is_named = change.names.iter().any(|name| error.contains(name.as_str()))
        || error.contains(CHECKPOINT)
        // It then names the tensor, or the place in the epoch.
        || error.contains("error: the checkpoint ")
        || ["model.", "data.", "train.", "optimizer.", "schedule.", "memory.", "device.", "run."]
            .iter()
            .any(|section| error.contains(&format!("`{section}")));
    (!answer.is_success() && !is_named)
        .then(|| format!("the error names neither file nor key: {}", answer.last_words()))
}

/// What holds for a training that went on: it ended at its step, its numbers are finite, and it is resumed again.
pub(crate) fn harm_of_training(arena: &Arena, folder: &Folder) -> Result<Option<String>, Error> {
    if let Some(harm) = harm_of_metrics(folder)? {
        return Ok(Some(harm));
    }
    let newest = match run_files::linked(&folder.at("run"), "latest") {
        Ok(newest) => newest,
        Err(problem) => return Ok(Some(format!("what it saved is damaged: {problem}"))),
    };
    // What was resumed stays as it was, unless it was pruned.
    let others =
        fs::read_dir(folder.at(CHECKPOINT)).into_iter().flatten().flatten().map(|entry| entry.file_name());
    if let Some(other) = others.into_iter().find(|name| !FILES.iter().any(|file| name == *file)) {
        return Ok(Some(format!("it wrote `{}` into the checkpoint", other.display())));
    }
    if newest.step() > LAST_STEP {
        return Ok(Some(format!("it saved step {} of {LAST_STEP}", newest.step())));
    }
    let steps = format!("train.steps={}", LAST_STEP + 1);
    let again = ask(arena, folder, &["train", "--resume", "run", "--set", &steps].map(str::to_owned))?;
    Ok((!again.is_success()).then(|| format!("it went on, but not a second time: {}", again.last_words())))
}

/// What is wrong with the events of the run's last process.
fn harm_of_metrics(folder: &Folder) -> Result<Option<String>, Error> {
    // A forged configuration may name another place.
    let Ok(text) = fs::read_to_string(folder.at("run/metrics.jsonl")) else {
        return Ok(None);
    };
    let events: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let start = events.iter().rposition(|event| event["event"] == "started").unwrap_or(0);
    for event in &events[start..] {
        let is_finite = |key: &str| event[key].as_f64().is_some_and(|value| value.is_finite());
        let is_impossible = match event["event"].as_str() {
            // A forged sum of losses is as good as any: a loss of one's own may be negative.
            Some("step") => !is_finite("loss"),
            Some("eval") => !is_finite("eval_loss"),
            _ => false,
        };
        if is_impossible || event["step"].as_u64().is_some_and(|step| step > LAST_STEP) {
            return Ok(Some(format!("an impossible event: {event}")));
        }
    }
    let is_done = events.last().is_some_and(|event| event["event"] == "done");
    Ok((!is_done).then(|| "its events do not end with `done`".to_owned()))
}

/// What is wrong with the events on standard output: a number that is none is `null` in JSON.
pub(crate) fn harm_of_events(answer: &Answer) -> Option<String> {
    let text = String::from_utf8_lossy(&answer.stdout);
    text.lines().find_map(|line| {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            return Some(format!("no JSON: {line}"));
        };
        let is_loss = event.get("eval_loss").is_none_or(Value::is_number);
        let classes = event["classes"].as_array();
        let is_share =
            |class: &Value| class["probability"].as_f64().is_some_and(|p| (0.0..=1.0).contains(&p));
        let is_possible = is_loss && classes.is_none_or(|classes| classes.iter().all(is_share));
        (!is_possible).then(|| format!("an impossible answer: {line}"))
    })
}

/// What is wrong with exported weights.
pub(crate) fn harm_of_export(folder: &Folder) -> Option<String> {
    let bytes = fs::read(folder.at("out.safetensors")).unwrap_or_default();
    let Some(file) = TensorFile::decode(&bytes) else {
        return Some("what it exported is no safetensors file".to_owned());
    };
    file.names().into_iter().find_map(|name| {
        let (begin, end) = file.place(&name)?;
        let is_number = file.head[&name]["dtype"] != "F32"
            || file.data[begin..end].as_chunks().0.iter().all(|value| f32::from_le_bytes(*value).is_finite());
        (!is_number).then(|| format!("what it exported is not finite: {name}"))
    })
}

/// Follows the hint to name the run directory: its older checkpoint is whole.
pub(crate) fn harm_of_hint(
    arena: &Arena,
    folder: &Folder,
    recipe: &str,
    command: &str,
) -> Result<Option<String>, Error> {
    let mut words = arguments(command, recipe, "run");
    // `predict` takes the run directory anyway, and its newest checkpoint without `--checkpoint`.
    if command == "predict" {
        words.drain(3..5);
    }
    let answer = ask(arena, folder, &words)?;
    Ok((!answer.is_success()).then(|| format!("its hint does not help: {}", answer.last_words())))
}

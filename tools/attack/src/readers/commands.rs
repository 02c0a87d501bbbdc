//! Commands that read a run while another process trains in it.

use std::{fs, path::Path};

use oomph_core::Generator;
use serde_json::Value;

use super::tally::Reading;
use crate::{Answer, Arena, Error};

/// A command that reads.
#[derive(Clone, Copy, Debug)]
struct Reader {
    name: &'static str,
    words: &'static [&'static str],
    /// What must exist in the run directory before it can answer.
    needs: &'static str,
}

const LATEST: &str = "checkpoints/latest";
const BEST: &str = "checkpoints/best";

/// The commands; what `export` writes has the thread's number in its name.
const READERS: [Reader; 10] = [
    Reader { name: "runs --json", words: &["runs", "run", "--json"], needs: "metrics.jsonl" },
    Reader { name: "runs", words: &["runs", "."], needs: "metrics.jsonl" },
    Reader { name: "evaluate", words: &["evaluate", "--checkpoint", "run", "--json"], needs: LATEST },
    Reader {
        name: "evaluate best",
        words: &["evaluate", "--checkpoint", "run/checkpoints/best", "--json"],
        needs: BEST,
    },
    Reader {
        name: "evaluate latest",
        words: &["evaluate", "--checkpoint", "run/checkpoints/latest", "--json"],
        needs: LATEST,
    },
    Reader {
        name: "predict",
        words: &["predict", "--run", "run", "--prompt", "line", "--length", "3", "--json"],
        needs: LATEST,
    },
    Reader {
        name: "predict best",
        words: &[
            "predict",
            "--run",
            "run",
            "--checkpoint",
            "best",
            "--prompt",
            "line",
            "--length",
            "3",
            "--json",
        ],
        needs: BEST,
    },
    Reader { name: "export", words: &["export", "run", "--force", "--json"], needs: LATEST },
    Reader {
        name: "plan",
        words: &["plan", "--config", "run/config.toml", "--batch", "8", "--json"],
        needs: "config.toml",
    },
    Reader {
        name: "summary",
        words: &["summary", "--config", "run/config.toml", "--json"],
        needs: "config.toml",
    },
];

/// A step that a command read, with its loss on the held-out set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) step: u64,
    pub(super) loss: Option<f64>,
}

/// Runs a command. Gives its name, what it read, and the step of the checkpoint.
pub(super) fn read(
    arena: &Arena,
    folder: &Path,
    thread: usize,
    random: &mut Generator,
) -> Result<(&'static str, Reading, Option<Seen>), Error> {
    let reader = READERS[random.below(READERS.len())];
    let export = format!("weights-{thread}.safetensors");
    let mut words = reader.words.to_vec();
    if reader.name == "export" {
        words.extend(["--to", &export]);
    }
    // Whatever is there before the command starts must be found.
    let is_there = is_there(&folder.join("run").join(reader.needs));
    let answer = arena.oomph(folder).arguments(&words).run()?;
    let about = |what: &str| Reading::Harm(format!("`{}` {what}: {}", words.join(" "), answer.last_words()));
    let reading = match verdict(&reader, &answer, is_there) {
        Ok(None) => return Ok((reader.name, Reading::Refused, None)),
        Ok(Some(value)) => match seen(&reader, &value, is_there) {
            Ok(seen) => return Ok((reader.name, Reading::Right, seen)),
            Err(problem) => about(&problem),
        },
        Err(problem) => about(&problem),
    };
    Ok((reader.name, reading, None))
}

/// Whether a file or a link is there; a log, whether it has an event.
fn is_there(path: &Path) -> bool {
    match path.extension() {
        Some(ending) if ending == "jsonl" => fs::read(path).is_ok_and(|bytes| bytes.contains(&b'\n')),
        _ => path.exists(),
    }
}

/// What a command wrote last; nothing if it was refused before there was something to read.
fn verdict(reader: &Reader, answer: &Answer, is_there: bool) -> Result<Option<Value>, String> {
    if let Some(harm) = answer.harm() {
        return Err(harm);
    }
    let errors = answer.errors();
    let worse =
        ["damaged", "not found", "checksum", "warning"].into_iter().find(|word| errors.contains(word));
    if let Some(word) = worse.filter(|_| is_there) {
        return Err(format!("speaks of `{word}`"));
    }
    if !answer.is_success() {
        return if is_there { Err(format!("ends with {:?}", answer.code())) } else { Ok(None) };
    }
    let text = String::from_utf8_lossy(&answer.stdout);
    if reader.name == "runs" {
        let has_run = text.lines().any(|line| line.contains("lstm-lm"));
        return if has_run || !is_there {
            Ok(has_run.then_some(Value::Null))
        } else {
            Err("lists no run".into())
        };
    }
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).map(Some).map_err(|error| format!("writes no JSON ({error})"))
}

/// Checks the values of an answer; the step where it read a checkpoint.
fn seen(reader: &Reader, value: &Value, is_there: bool) -> Result<Option<Seen>, String> {
    let finite = |value: &Value| value.as_f64().filter(|value| value.is_finite());
    match reader.words[0] {
        "evaluate" | "predict" | "export" => {
            let step = value["step"].as_u64().filter(|_| value["event"] == "done");
            let step = step.ok_or_else(|| format!("names no step: {value}"))?;
            let loss = finite(&value["eval_loss"]);
            if reader.words[0] == "evaluate" && loss.is_none() {
                return Err(format!("has no loss: {value}"));
            }
            if reader.words[0] == "predict" && value["tokens"] != 3 {
                return Err(format!("has not three tokens: {value}"));
            }
            Ok(Some(Seen { step, loss }))
        }
        "plan" => match value["batches"][0]["planned_peak_bytes"].as_u64() {
            Some(1..) => Ok(None),
            _ => Err(format!("plans nothing: {value}")),
        },
        "summary" if value["parameters"].as_u64() == Some(0) => Err(format!("counts nothing: {value}")),
        "runs" if value.is_object() => {
            let is_read =
                value["runs"][0]["run_dir"] == "run" && value["passed_over"] == serde_json::json!([]);
            match value["runs"][0]["status"].as_str() {
                Some("running" | "stopped" | "killed") if is_read => Ok(None),
                None if !is_there => Ok(None),
                _ => Err(format!("has another run: {value}")),
            }
        }
        _ => Ok(None),
    }
}

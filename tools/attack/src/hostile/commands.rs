//! Valid command lines of every command, in the folder of a source.

use std::ffi::OsString;

use oomph_core::Generator;

use super::world::Source;

/// A command line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) words: Vec<OsString>,
    /// A file that the command writes, and that is absent if it fails.
    pub(crate) output: Option<&'static str>,
    /// Whether it may work as long as its input says: a training, a search, a monitor.
    pub(crate) is_long: bool,
}

/// What a command line reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// The configuration, and the data that it names.
    Data,
    Config,
    /// The run directory.
    Run,
    /// A weight file: its name.
    Weights(&'static str),
}

const OUTPUT: &str = "new/out";

fn line(words: &[&str], more: &[&str]) -> Line {
    let words: Vec<OsString> = words.iter().chain(more).map(OsString::from).collect();
    let is_long = ["train", "find-batch", "compare", "profile", "verify-gpu", "monitor"]
        .iter()
        .any(|long| words.first().is_some_and(|word| word == long));
    let output = words.iter().any(|word| *word == OUTPUT).then_some(OUTPUT);
    Line { words, output, is_long }
}

const NEW_RUN: [&str; 4] = ["--set", "run.directory=new/run", "--set", "train.steps=2"];

/// A command that reads what is asked for.
pub(crate) fn of(random: &mut Generator, reads: Reads, source: &Source) -> Line {
    let config = ["--config", "config.toml"];
    let train = |more: &[&str]| line(&["train", "--config", "config.toml"], &[&NEW_RUN, more].concat());
    match reads {
        Reads::Data => match random.below(9) {
            0..4 => train(&[]),
            4 => train(&["--json", "--set", "data.on_corrupt=skip"]),
            5 => line(&["evaluate", "--checkpoint", "run"], &[]),
            6 if !source.predicts.is_empty() => line(&["predict", "--run", "run"], source.predicts),
            7 => line(&["plan", "--batch", "2"], &config),
            _ => line(&["profile", "--warmup", "0", "--steps", "1", "--html", OUTPUT], &config),
        },
        Reads::Config => match random.below(10) {
            0 | 1 => line(&["config"], &config),
            2 => line(&["config", "--json"], &config),
            3 => line(&["summary"], &config),
            4 => line(&["plan", "--html", OUTPUT], &config),
            5 => line(&["compare", "--plan-only", "--batches", "1,2", "--html", OUTPUT], &config),
            6 => line(&["find-batch", "--max", "2", "--memory-limit", "200MiB"], &config),
            7 => line(
                &["profile", "--warmup", "0", "--steps", "1", "--html", OUTPUT, "--memory-limit", "200MiB"],
                &config,
            ),
            _ => train(&["--memory-limit", "200MiB"]),
        },
        Reads::Run => match random.below(8) {
            0 | 1 => line(&["train", "--resume", "run", "--set", "train.steps=3"], &[]),
            2 => line(
                &["train", "--resume", "run/checkpoints/latest", "--set", "train.steps=3", "--json"],
                &[],
            ),
            3 => line(&["evaluate", "--checkpoint", "run/checkpoints/step-00000002"], &[]),
            4 if !source.predicts.is_empty() => {
                line(&["predict", "--run", "run", "--checkpoint", "best"], source.predicts)
            }
            5 => line(&["export", "run", "--to", OUTPUT], &[]),
            6 => line(&["runs", "run"], &[]),
            _ => line(&["runs", ".", "--json"], &[]),
        },
        Reads::Weights(file) => match random.below(3) {
            0 => line(&["evaluate", "--weights", file], &config),
            1 => line(&["export", "--weights", file, "--to", OUTPUT], &config),
            _ => train(&["--set", &format!("model.weights={file}")]),
        },
    }
}

/// A flag or an argument, with its value if it takes one.
type Flag = (&'static str, Option<&'static str>);

/// Flags of every command, with a valid value where one takes a value.
pub(crate) const FLAGS: [(&str, &[Flag]); 15] = [
    (
        "train",
        &[
            ("--config", Some("config.toml")),
            ("--set", Some("run.directory=new/run")),
            ("--devices", Some("cpu")),
            ("--memory-limit", Some("1GiB")),
            ("--strategy", Some("ddp")),
            ("--json", None),
            ("--quiet", None),
            ("--resume", Some("run")),
            ("--no-plan-check", None),
        ],
    ),
    (
        "evaluate",
        &[
            ("--config", Some("config.toml")),
            ("--set", Some("train.batch=2")),
            ("--checkpoint", Some("run")),
            ("--weights", Some("weights.pth")),
            ("--json", None),
            ("--quiet", None),
        ],
    ),
    (
        "predict",
        &[
            ("--run", Some("run")),
            ("--checkpoint", Some("best")),
            ("--top", Some("2")),
            ("--prompt", Some("the")),
            ("--length", Some("5")),
            ("--temperature", Some("0.5")),
            ("--top-k", Some("2")),
            ("--seed", Some("1")),
            ("image.png", None),
        ],
    ),
    ("runs", &[("--sort", Some("best")), ("--json", None), ("run", None), (".", None)]),
    (
        "export",
        &[
            ("--to", Some("new/out")),
            ("--layout", Some("oomph")),
            ("--force", None),
            ("--weights", Some("weights.safetensors")),
            ("--config", Some("config.toml")),
            ("run", None),
        ],
    ),
    (
        "plan",
        &[
            ("--config", Some("config.toml")),
            ("--batch", Some("1,2")),
            ("--gpu", Some("2x8GiB")),
            ("--html", Some("new/out")),
            ("--svg", Some("new/out.svg")),
            ("--force", None),
            ("--json", None),
            ("--strategy", Some("pipeline")),
            ("--devices", Some("cpu,cpu")),
        ],
    ),
    (
        "find-batch",
        &[
            ("--max", Some("4")),
            ("--min", Some("1")),
            ("--multiple-of", Some("2")),
            ("--margin", Some("5%")),
            ("--effective-batch", Some("4")),
            ("--write", None),
            ("--json", None),
            ("--memory-limit", Some("100MiB")),
        ],
    ),
    (
        "profile",
        &[
            ("--warmup", Some("0")),
            ("--steps", Some("1")),
            ("--out", Some("new")),
            ("--html", Some("new/out")),
            ("--svg", Some("new/out.svg")),
            ("--force", None),
            ("--config", Some("config.toml")),
        ],
    ),
    (
        "compare",
        &[
            ("--optimizers", Some("sgd,adam+lr=0.01")),
            ("--batches", Some("1,2")),
            ("--micro-batches", Some("1")),
            ("--precisions", Some("fp32")),
            ("--recompute", Some("none")),
            ("--lean", Some("true")),
            ("--steps", Some("3")),
            ("--plan-only", None),
            ("--sort", Some("peak")),
            ("--html", Some("new/out")),
        ],
    ),
    ("monitor", &[("--once", None), ("--interval", Some("1s")), ("--json", None)]),
    ("doctor", &[("--devices", Some("cpu")), ("--json", None)]),
    ("summary", &[("--batch", Some("2")), ("--config", Some("config.toml")), ("--json", None)]),
    ("config", &[("--config", Some("config.toml")), ("--set", Some("train.batch=2")), ("--json", None)]),
    ("devices", &[("--json", None)]),
    ("completions", &[("bash", None)]),
];

/// A valid command line of some flags.
pub(crate) fn any(random: &mut Generator) -> Vec<OsString> {
    let (command, flags) = FLAGS[random.below(FLAGS.len())];
    let mut words = vec![OsString::from(command)];
    for (flag, value) in flags {
        if random.chance(0.25) {
            words.push((*flag).into());
            words.extend(value.map(OsString::from));
        }
    }
    words
}

//! A rank that differs from the others, and a second job in a run directory.

use std::{fs, path::Path};

use super::{
    Attack, Goal, Trouble, Verdict, Verdicts,
    job::{Job, LONGEST},
    training::{LIMIT, SAVE, STEPS, Training, ended, success, without_panic, words},
};
use crate::{Answer, Case, Folder};

/// In what a rank differs.
#[derive(Clone, Copy, Debug)]
enum Other {
    /// A value of the configuration: the key, and the value.
    Value(&'static str, &'static str),
    /// A number in the data.
    Number,
    /// The number of samples.
    Samples,
    /// A number in the initial weights.
    Weight,
    /// The program, which was built without the feature `mpi`.
    Program,
}

const OTHERS: [Other; 10] = [
    Other::Value("train.seed", "6"),
    Other::Number,
    Other::Value("train.batch", "12"),
    Other::Weight,
    Other::Value("optimizer.lr", "0.07"),
    Other::Samples,
    Other::Value("train.steps", "30"),
    Other::Program,
    Other::Value("model.hidden", "9"),
    Other::Value("device.check_every", "3 steps"),
];

/// The steps of a job whose ranks differ, if it begins: more than `device.check_every`.
const LONG: usize = 250;
/// The folder in which the other rank runs.
const ELSEWHERE: &str = "elsewhere";

/// Lets one rank differ: all must be refused before they write anything, with words for what differs.
pub(super) fn rank(attack: &Attack<'_>, case: &mut Case) -> Verdicts {
    let other = OTHERS[case.random.below(OTHERS.len())];
    let ranks = 2 + case.random.below(2);
    let is_first = case.random.chance(0.3);
    let folder = attack.arena.folder()?;
    fs::create_dir(folder.at(ELSEWHERE))?;
    for (place, is_other) in [("", false), (ELSEWHERE, true)] {
        fill(attack, &folder, Path::new(place), is_other.then_some(other))?;
    }
    let oomph = attack.oomph.display().to_string();
    let train = ["train", "--config", "job.toml", "--json"];
    let most = (ranks - 1).to_string();
    let common = [&["-n", &most, &*oomph][..], &train].concat();
    let program = match other {
        Other::Program => attack.arena.oomph.display().to_string(),
        _ => oomph.clone(),
    };
    let elsewhere = folder.at(ELSEWHERE).display().to_string();
    let lone = [&["-n", "1", "-wdir", &*elsewhere, &*program][..], &train].concat();
    let all = if is_first { [lone, vec![":"], common] } else { [common, vec![":"], lone] }.concat();
    let checked = || {
        let answer = Job::launch(folder.path(), all)?.ends_within(LONGEST)?;
        refused(&answer, other)?;
        if let Some(run) = ["run", "elsewhere/run"].iter().find(|run| folder.at(run).exists()) {
            return Err(Trouble::Harm(format!("`{run}` was made: {}", words(&answer))));
        }
        Ok(Verdict::new(ended(&answer), Goal::Nothing))
    };
    checked().map_err(|trouble: Trouble| {
        let which = if is_first { 0 } else { ranks - 1 };
        trouble.of(&format!("{ranks} ranks, rank {which} with another {other:?}"))
    })
}

/// Writes what a job of a time series reads into a folder.
fn fill(attack: &Attack<'_>, folder: &Folder, place: &Path, other: Option<Other>) -> Result<(), Trouble> {
    let rows = if matches!(other, Some(Other::Samples)) { 290 } else { 300 };
    let mut series: Vec<_> = (0..rows).map(|row| f64::from(row * row % 17) / 4.0).collect();
    if matches!(other, Some(Other::Number)) {
        series[100] += 1.0;
    }
    let series: String = series.iter().map(|value| format!("{value}\n")).collect();
    folder.write(place.join("series.csv"), format!("value\n{series}"))?;
    let config = format!(
        "model = {{ name = 'lstm', hidden = 8, weights = 'weights.safetensors' }}\n\
         data = {{ source = 'csv', path = 'series.csv', steps = 8, workers = 0 }}\n\
         train = {{ steps = {LONG}, batch = 8, seed = 5 }}\nrun = {{ directory = 'run' }}\n"
    );
    weights(attack, folder, &config, other)?;
    let mut given = config;
    if let Some(Other::Value(key, value)) = other {
        let table: Vec<_> = key.split('.').collect();
        let quoted = if value.parse::<f64>().is_ok() { value.to_owned() } else { format!("'{value}'") };
        given = with(&given, table[0], table[1], &quoted);
    }
    Ok(folder.write(place.join("job.toml"), given)?)
}

/// The configuration with another value in one of its inline tables, or in a table of its own.
fn with(config: &str, table: &str, key: &str, value: &str) -> String {
    let is_line = |line: &&str| line.starts_with(&format!("{table} = {{"));
    let Some(line) = config.lines().find(is_line) else {
        return format!("{config}{table}.{key} = {value}\n");
    };
    let body = line.trim_start_matches(&format!("{table} = {{")).trim_end_matches('}');
    let others = body.split(", ").filter(|pair| !pair.trim().starts_with(&format!("{key} =")));
    let pairs: Vec<_> =
        others.map(str::trim).map(str::to_owned).chain([format!("{key} = {value}")]).collect();
    config.replace(line, &format!("{table} = {{ {} }}", pairs.join(", ")))
}

/// Trains initial weights, which all ranks read; in those of the other rank one number may differ.
fn weights(attack: &Attack<'_>, folder: &Folder, config: &str, other: Option<Other>) -> Result<(), Trouble> {
    let Some(other) = other else {
        let config = config.replace(", weights = 'weights.safetensors'", "");
        let config = config.replace("'run'", "'before'").replace(&format!("steps = {LONG}"), "steps = 1");
        folder.write("before.toml", config)?;
        let answer =
            attack.arena.oomph(folder.path()).arguments(["train", "--config", "before.toml"]).run()?;
        if !answer.is_success() {
            return Err(Trouble::Machine(format!("no initial weights: {}", answer.last_words()).into()));
        }
        let trained = folder.at("before/checkpoints/latest/model.safetensors");
        fs::copy(trained, folder.at("weights.safetensors"))?;
        return Ok(());
    };
    let mut bytes = fs::read(folder.at("weights.safetensors"))?;
    if let (Other::Weight, Some(last)) = (other, bytes.last_mut()) {
        // The lowest bit of the last number's exponent but one: the number is four times as large, or as small.
        *last ^= 1;
    }
    Ok(folder.write(Path::new(ELSEWHERE).join("weights.safetensors"), bytes)?)
}

/// Checks that a job was refused, with words for what differs.
fn refused(answer: &Answer, other: Other) -> Result<(), Trouble> {
    without_panic(answer, &[])?;
    let named = match other {
        Other::Value(key, _) => key,
        Other::Number | Other::Samples => "data",
        Other::Weight => "weights",
        Other::Program => "mpi",
    };
    let errors = answer.errors();
    if answer.code() == Some(1) && errors.contains("error") && errors.contains(named) {
        return Ok(());
    }
    Err(Trouble::harm(format!("it ends with {}, not by `{named}`: {}", ended(answer), words(answer))))
}

/// Starts a second job, or a lone process, in the run directory of a job that trains: it must be refused.
pub(super) fn second(attack: &Attack<'_>, case: &mut Case) -> Verdicts {
    let training = Training::random(attack, case)?;
    let mut job = training.start()?;
    let step = SAVE + 1 + case.random.below(STEPS / 4);
    job.wait_for_step(step)?;
    // It trains on only after the second has its answer.
    let ranks = 0..training.ranks;
    ranks.clone().for_each(|rank| _ = job.signal(rank, libc::SIGSTOP));
    let is_anew = case.random.chance(0.3);
    let is_alone = case.random.chance(0.3);
    let checked = || {
        let other = match (is_anew, is_alone) {
            (true, _) => training.start()?.ends_within(LIMIT)?,
            (false, true) => {
                attack.arena.oomph(training.folder.path()).arguments(["train", "--resume", "run"]).run()?
            }
            (false, false) => training.resume(training.ranks)?.ends_within(LIMIT)?,
        };
        ranks.for_each(|rank| _ = job.signal(rank, libc::SIGCONT));
        without_panic(&other, &[])?;
        if other.code() != Some(1) || !other.errors().contains("error") || !other.errors().contains("run") {
            let words = format!("the second ends with {}: {}", ended(&other), words(&other));
            return Err(Trouble::Harm(words));
        }
        let answer = job.ends_within(LONGEST)?;
        success(&answer)?;
        training.finished()?;
        Ok(Verdict::new(format!("{}, the second {}", ended(&answer), ended(&other)), Goal::SameBytes))
    };
    checked().map_err(|trouble: Trouble| {
        let what = format!("a second job after step {step}, anew {is_anew}, alone {is_alone}");
        trouble.of(&format!("{}, {what}", training.described()))
    })
}

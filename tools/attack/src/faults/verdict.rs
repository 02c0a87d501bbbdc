//! What a command may do after a fault, and what not.

use serde_json::Value;

use super::{
    commands::{OUTPUT, Prepared},
    fault::{Fault, STDERR},
    files::{Files, is_of_checkpoint, is_secondary, is_unfinished, is_whole},
};
use crate::{
    Answer, Arena, Error, Folder,
    run_files::{self, Checkpoint},
};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// As if nothing had happened.
    Same,
    /// With a warning.
    Warned,
    /// With an error.
    Refused,
}

/// Judges what a command answered and left, runs it again, and judges that. Gives what is wrong.
pub(super) fn judge(
    arena: &Arena,
    prepared: &Prepared,
    folder: &Folder,
    fault: &Fault,
    answer: &Answer,
) -> Result<(End, Vec<String>), Error> {
    let files = Files::read(folder.path())?;
    let mut problems = Vec::new();
    let is_mute = *fault.kind == STDERR;
    problems.extend(answer.harm().filter(|harm| !(is_mute && harm.contains("says nothing"))));
    problems.extend(lost(prepared, &files));
    problems.extend(half_written(prepared, &files));
    problems.extend(checkpoints(prepared, folder, answer)?);
    let has_warned = has_warned(prepared, answer);
    let end = match answer.is_success() {
        true if has_warned => End::Warned,
        true => End::Same,
        false => End::Refused,
    };
    match end {
        End::Refused if fault.is_harmless() => {
            problems.push(format!("a fault that means nothing is an error: {}", answer.last_words()));
        }
        End::Refused if !is_mute => problems.extend(wordless(fault, answer)),
        End::Refused => {}
        End::Warned | End::Same => {
            problems.extend(incomplete(prepared, &files, fault, answer, end));
            if fault.loses_output() && !is_closed_pipe(fault) {
                problems.push("standard output cannot be written, and the exit code is 0".into());
            }
        }
    }
    if answer.is_success() && prepared.command.is_training() {
        problems
            .extend(last_checkpoint(prepared, folder)?.map(|problem| format!("exit code 0, and {problem}")));
    }
    problems.extend(again(arena, prepared, folder)?);
    Ok((end, problems))
}

/// A program whose reader has gone may end without a word.
fn is_closed_pipe(fault: &Fault) -> bool {
    fault.words().contains("Broken pipe")
}

/// Whether it warned of something that it does not warn of undisturbed.
fn has_warned(prepared: &Prepared, answer: &Answer) -> bool {
    let count = |stdout: &[u8], errors: &str| {
        let stdout = String::from_utf8_lossy(stdout);
        stdout.matches("\"warning\"").count()
            + errors.matches("warning").count()
            + errors.matches("note:").count()
    };
    count(&answer.stdout, &answer.errors()) > count(&prepared.stdout, &prepared.errors)
}

/// Files that were there before, and that the command changes only on purpose.
fn lost(prepared: &Prepared, files: &Files) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, before) in &prepared.before.0 {
        if is_secondary(name) || is_of_checkpoint(name) {
            continue;
        }
        let after = prepared.after.0.get(name);
        match files.0.get(name) {
            Some(found) if found == before || after == Some(found) => {}
            Some(found) if after != Some(before) && is_whole(name, found) => {}
            Some(_) => problems.push(format!("the earlier file `{name}` has other content")),
            None => problems.push(format!("the earlier file `{name}` is lost")),
        }
    }
    problems
}

/// New files under their final names that are not whole.
fn half_written(prepared: &Prepared, files: &Files) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, content) in &files.0 {
        let is_new = !prepared.before.0.contains_key(name);
        if !is_new || is_secondary(name) || is_of_checkpoint(name) || is_unfinished(name) {
            continue;
        }
        match (prepared.steady.0.get(name), prepared.after.0.contains_key(name)) {
            (Some(expected), _) if expected == content => {}
            (None, true) if is_whole(name, content) => {}
            // A report of the fault itself.
            (None, false) if name.contains("out-of-memory") => {}
            (_, true) => problems.push(format!("`{name}` is half-written: {} bytes", content.len())),
            (_, false) => problems.push(format!("`{name}` was written, and is none of the command's files")),
        }
    }
    problems
}

/// What is wrong with the checkpoints of a run.
fn checkpoints(prepared: &Prepared, folder: &Folder, answer: &Answer) -> Result<Vec<String>, Error> {
    let (whole, mut problems) = run_files::checkpoints(&folder.at("run"))?;
    let newest = |checkpoints: &[Checkpoint]| checkpoints.iter().map(Checkpoint::step).max();
    let before = newest(&run_files::checkpoints(&prepared.template().join("run"))?.0);
    let events = answer.stdout.split(|byte| *byte == b'\n');
    let events = events.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let saved = events.filter(|it| it["event"] == "checkpoint").filter_map(|it| it["step"].as_u64()).max();
    let found = newest(&whole);
    if found < before.max(saved) {
        problems
            .push(format!("step {:?} was saved, and the newest checkpoint is {found:?}", before.max(saved)));
    }
    let newest = whole.iter().max_by_key(|it| it.state["save_number"].as_u64());
    let best = newest.and_then(|it| it.state["progress"]["early_stopping"]["best_step"].as_u64());
    if best.is_some() && !whole.iter().any(|it| Some(it.step()) == best) {
        problems.push(format!("the best checkpoint, of step {best:?}, is lost"));
    }
    Ok(problems)
}

/// An error whose words help nobody.
fn wordless(fault: &Fault, answer: &Answer) -> Option<String> {
    let words = answer.errors() + &String::from_utf8_lossy(&answer.stdout);
    let is_clear = words.contains("error") && (words.contains('`') || !fault.is_of_file());
    // The exit code of a command such as `doctor` tells what its report says.
    let is_report = answer.stderr.is_empty() && !answer.stdout.is_empty();
    (!is_clear && !is_report).then(|| format!("the error names nothing: {}", answer.last_words()))
}

/// What is missing although the command says that it succeeded.
fn incomplete(prepared: &Prepared, files: &Files, fault: &Fault, answer: &Answer, end: End) -> Vec<String> {
    let mut problems = Vec::new();
    let may_lack = end == End::Warned || *fault.kind == STDERR;
    for name in prepared.after.0.keys().filter(|name| *name != OUTPUT) {
        let expected = prepared.steady.0.get(name);
        match files.0.get(name) {
            None if may_lack && (is_secondary(name) || is_of_checkpoint(name)) => {}
            None => problems.push(format!("exit code 0, and `{name}` is missing")),
            Some(found) if expected.is_none_or(|expected| expected == found) => {}
            Some(_) if is_secondary(name) || may_lack && is_of_checkpoint(name) => {}
            // A command that reads a run takes the checkpoint before the newest, if that cannot be read.
            Some(found) if end == End::Warned && !prepared.command.is_training() && is_whole(name, found) => {
            }
            Some(_) => problems.push(format!("exit code 0, and `{name}` has other content than undisturbed")),
        }
    }
    let lines =
        |files: &Files, name: &str| files.0.get(name).map(|text| text.split(|byte| *byte == b'\n').count());
    let metrics = "run/metrics.jsonl";
    if !may_lack && lines(files, metrics) < lines(&prepared.after, metrics) {
        problems.push("exit code 0 without a warning, and events are missing in metrics.jsonl".into());
    }
    if let Some(expected) = prepared.steady.0.get(OUTPUT)
        && *expected != answer.stdout
        && end == End::Same
        && !is_closed_pipe(fault)
        && !prepared.command.is_training()
    {
        problems.push("exit code 0, and standard output is not as undisturbed".into());
    }
    problems
}

/// Runs the command again, which must do all that the fault prevented.
fn again(arena: &Arena, prepared: &Prepared, folder: &Folder) -> Result<Vec<String>, Error> {
    let answer = prepared.again(arena, folder)?;
    let mut problems: Vec<_> =
        answer.harm().map(|harm| format!("run again, it {harm}")).into_iter().collect();
    if !answer.is_success() {
        problems.push(format!("run again, it fails: {}", answer.last_words()));
        return Ok(problems);
    }
    let files = Files::read(folder.path())?;
    for (name, expected) in &prepared.steady.0 {
        let is_compared = !is_secondary(name) && !is_of_checkpoint(name) && name != OUTPUT;
        if is_compared && files.0.get(name) != Some(expected) {
            problems.push(format!("run again, `{name}` is not as undisturbed"));
        }
    }
    if prepared.command.is_training() {
        problems.extend(end_of_training(prepared, folder)?.map(|problem| format!("run again, {problem}")));
    }
    let (_, damaged) = run_files::checkpoints(&folder.at("run"))?;
    problems.extend(damaged);
    if folder.at("run").is_dir() {
        let listed = arena.oomph(folder.path()).arguments(["runs", "--json", "run"]).run()?;
        let told: Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
        if !listed.is_success() || told["runs"].as_array().is_none_or(Vec::is_empty) {
            problems.push(format!("`runs` does not list the run after that: {}", listed.last_words()));
        }
    }
    Ok(problems)
}

/// How a training's end differs from that of the undisturbed one, in the newest checkpoint or in the best. Which earlier
/// ones are left, and which of two names one has, depends on where a fault ended the training.
fn end_of_training(prepared: &Prepared, folder: &Folder) -> Result<Option<String>, Error> {
    if let Some(problem) = last_checkpoint(prepared, folder)? {
        return Ok(Some(problem));
    }
    let best = undisturbed(prepared, "best")?;
    let found = run_files::linked(&folder.at("run"), "best").map(|checkpoint| checkpoint.step());
    let is_best = found.as_ref().is_ok_and(|step| best.starts_with(&format!("step-{step:08}")));
    Ok((!is_best).then(|| format!("`best` is {found:?} and not {best}")))
}

/// Where a link points to after the undisturbed training.
fn undisturbed(prepared: &Prepared, link: &str) -> Result<String, Error> {
    let target = prepared.after.0.get(&format!("run/checkpoints/{link}"));
    let target = target.and_then(|target| std::str::from_utf8(target).ok()?.strip_prefix("-> "));
    let missing = || format!("{} leaves no link `{link}` undisturbed", prepared.command.label()).into();
    target.map(str::to_owned).ok_or_else(missing)
}

/// What the last checkpoint of the undisturbed training has, and none here.
fn last_checkpoint(prepared: &Prepared, folder: &Folder) -> Result<Option<String>, Error> {
    let last = undisturbed(prepared, "latest")?;
    let (whole, _) = run_files::checkpoints(&folder.at("run"))?;
    let is_same = |(file, found): (&String, &String)| {
        let expected = prepared.steady.0.get(&format!("run/checkpoints/{last}/{file}"));
        expected.is_some_and(|bytes| run_files::sha256(bytes) == *found)
    };
    let is_last = |it: &Checkpoint| {
        last.starts_with(&format!("step-{:08}", it.step())) && it.trained().into_iter().all(is_same)
    };
    Ok((!whole.iter().any(is_last)).then(|| format!("no checkpoint is as {last} undisturbed")))
}

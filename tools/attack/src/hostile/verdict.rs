//! What a command may do with hostile input.

use std::time::Duration;

use super::commands::Line;
use crate::{Answer, Arena, Error, Folder, trees};

/// After this time, a training is asked to end, and everything else hangs.
const MOST_TIME: Duration = Duration::from_secs(15);

/// The most memory that a command may hold: the inputs are tiny, whatever they say.
const MOST_MEMORY: u64 = 1 << 30;

/// Runs a command line in the folder of a case.
pub(crate) fn ask(arena: &Arena, folder: &Folder, line: &Line) -> Result<Answer, Error> {
    let program = arena.oomph(folder.path()).arguments(&line.words);
    Ok(program.asked_to_end_after(MOST_TIME).within(4 * MOST_TIME).run()?)
}

/// What is wrong with an answer. `names` are texts of which an error must have one; keys and flags are enough too.
pub(crate) fn harm(
    answer: &Answer,
    line: &Line,
    folder: &Folder,
    names: &[String],
) -> Result<Option<String>, Error> {
    let was_asked_to_end = answer.wall >= MOST_TIME;
    if was_asked_to_end && !line.is_long {
        return Ok(Some(format!("no end within {} s", MOST_TIME.as_secs())));
    }
    if let Some(harm) = answer.harm() {
        return Ok(Some(harm));
    }
    if answer.peak_rss > MOST_MEMORY {
        return Ok(Some(format!("it takes {} MiB", answer.peak_rss >> 20)));
    }
    if answer.is_success() || matches!(answer.code(), Some(130 | 143)) {
        return Ok(None);
    }
    if let Some(half) = trees::half_written(folder.path())? {
        let half = half.strip_prefix(folder.path())?;
        return Ok(Some(format!("it leaves `{}`", oomph_core::printable(half.display()))));
    }
    // Where memory runs out, the files that were asked for are written.
    if answer.code() == Some(75) {
        return Ok(None);
    }
    if let Some(output) = line.output.filter(|output| folder.at(output).exists()) {
        return Ok(Some(format!("it fails and leaves `{output}`")));
    }
    Ok(harm_of_words(answer, line, names))
}

/// What is wrong with the words of an error.
fn harm_of_words(answer: &Answer, line: &Line, names: &[String]) -> Option<String> {
    let errors = answer.errors();
    // Doctor and find-batch end with a report.
    let output = String::from_utf8_lossy(&answer.stdout);
    if !errors.contains("error: ") {
        // Their tables say what failed.
        let is_report = ["doctor", "find-batch", "compare"].iter().any(|command| line.words[0] == *command)
            && !output.is_empty();
        let is_event = output.contains("\"event\":\"error\"");
        return (!is_event && !is_report).then(|| format!("no line `error: …`: {}", answer.last_words()));
    }
    if errors.contains("stack backtrace") {
        return Some(format!("a backtrace: {}", answer.last_words()));
    }
    // What a hint names need not be what is wrong.
    let error = errors.split("\n\nhint:").next().unwrap_or_default();
    let sections = ["model.", "data.", "train.", "optimizer.", "schedule.", "memory.", "device.", "run."];
    let is_named = names.iter().any(|name| error.contains(name.as_str()) || output.contains(name.as_str()))
        || error.contains("--")
        || sections.iter().any(|section| error.contains(&format!("`{section}")));
    (!is_named).then(|| format!("the error names neither file nor key nor flag: {}", answer.last_words()))
}

//! Unbroken trainings, which what kills left is compared with.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    Answer, Arena, Error,
    recipe::Recipe,
    run_files::{self, Checkpoint},
    trace::{self, Action, Call, Options},
};

/// How many checkpoints trainings keep.
pub(super) const KEPT: [usize; 2] = [1, 2];
/// The steps of a training.
const STEPS: u64 = 14;
/// No traced training takes longer.
pub(super) const LIMIT: Duration = Duration::from_secs(120);

/// The system calls at which trainings are killed, with the word for a kill just before each and just after.
pub(super) const CALLS: [(&str, &str, &str); 16] = [
    ("openat", "before openat", "after openat"),
    ("write", "before write", "after write"),
    ("rename", "before rename", "after rename"),
    ("renameat", "before rename", "after rename"),
    ("renameat2", "before rename", "after rename"),
    ("unlink", "before unlink", "after unlink"),
    ("unlinkat", "before unlink", "after unlink"),
    ("symlink", "before symlink", "after symlink"),
    ("symlinkat", "before symlink", "after symlink"),
    ("mkdir", "before mkdir", "after mkdir"),
    ("mkdirat", "before mkdir", "after mkdir"),
    ("rmdir", "before rmdir", "after rmdir"),
    ("ftruncate", "before ftruncate", "after ftruncate"),
    ("fsync", "before fsync", "after fsync"),
    ("fdatasync", "before fdatasync", "after fdatasync"),
    ("flock", "before flock", "after flock"),
];

/// A training that nobody killed.
#[derive(Debug)]
pub(super) struct Reference {
    pub(super) name: String,
    /// The configuration of the trainings that are killed.
    pub(super) config: String,
    pub(super) keep_last: usize,
    /// What was trained by each step that was saved.
    checkpoints: BTreeMap<u64, Checkpoint>,
    /// Each evaluation's step and loss.
    evaluations: Vec<(u64, f64)>,
    /// How often it makes each call that changes its files; empty if calls cannot be traced.
    pub(super) calls: BTreeMap<&'static str, usize>,
    /// How long it takes.
    pub(super) wall: Duration,
}

/// Whether a call changes files below a folder.
pub(super) fn changes(call: &Call, folder: &Path) -> bool {
    let is_below = call.path.as_ref().is_some_and(|path| path.starts_with(folder));
    is_below && (call.open_flags().is_none() || call.opens_to_write())
}

/// The names of [`CALLS`].
pub(super) fn call_names() -> [&'static str; CALLS.len()] {
    CALLS.map(|(name, ..)| name)
}

/// The events that a training wrote to standard output. Its last line may be incomplete after a kill.
pub(super) fn events(answer: &Answer) -> Vec<Value> {
    answer.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

fn config(recipe: &Recipe, keep_last: usize) -> String {
    // Evaluations sometimes come with a save, and sometimes between two.
    let train = format!("steps = {STEPS}, eval_every = '3 steps'");
    recipe.config(&train, &format!("save_every = '2 steps', keep_last = {keep_last}"))
}

impl Reference {
    /// Trains with a recipe: once with all checkpoints kept, and once as the trainings that are killed do.
    pub(super) fn new(
        arena: &Arena,
        recipe: &Recipe,
        keep_last: usize,
        is_traced: bool,
    ) -> Result<Self, Error> {
        let config = |kept| config(recipe, kept);
        let (checkpoints, evaluations) = whole(arena, &config(STEPS as usize * 2))?;
        let mut reference = Self {
            name: format!("{} with keep_last = {keep_last}", recipe.name),
            config: config(keep_last),
            keep_last,
            checkpoints,
            evaluations,
            calls: BTreeMap::new(),
            wall: Duration::ZERO,
        };
        let folder = arena.folder()?;
        folder.write("x.toml", &reference.config)?;
        let begin = Instant::now();
        let answer = arena.oomph(folder.path()).arguments(ARGUMENTS).run()?;
        reference.wall = begin.elapsed();
        expect_success(&answer)?;
        if is_traced {
            let folder = arena.folder()?;
            folder.write("x.toml", &reference.config)?;
            let options = Options { calls: &call_names(), records_data: false, limit: LIMIT };
            let program = arena.oomph(folder.path()).arguments(ARGUMENTS);
            let traced = trace::run(program, options, &mut |_, call| {
                if changes(call, folder.path()) {
                    *reference.calls.entry(call.name).or_default() += 1;
                }
                Action::Continue
            })?;
            expect_success(&traced.answer)?;
        }
        Ok(reference)
    }

    /// The step of the best evaluation up to a step, with its loss.
    pub(super) fn best(&self, step: u64) -> Option<(u64, f64)> {
        let past = self.evaluations.iter().copied().filter(|(at, _)| *at <= step);
        past.reduce(|best, next| if next.1 < best.1 { next } else { best })
    }

    /// The loss of the evaluation at a step, if there is one.
    pub(super) fn evaluated(&self, step: u64) -> Option<f64> {
        self.evaluations.iter().find(|(at, _)| *at == step).map(|(_, loss)| *loss)
    }

    /// What a checkpoint holds that the unbroken training did not have at its step.
    pub(super) fn difference(&self, checkpoint: &Checkpoint) -> Option<String> {
        let step = checkpoint.step();
        let Some(expected) = self.checkpoints.get(&step) else {
            return Some(format!("the unbroken training saved nothing at step {step}"));
        };
        if expected.trained() != checkpoint.trained() {
            return Some(format!("at step {step} other bytes were trained than without a kill"));
        }
        let progress = |checkpoint: &Checkpoint| {
            let mut progress = checkpoint.state["progress"].clone();
            // The time is that of the clock.
            progress.as_object_mut().map(|progress| progress.remove("seconds"));
            progress
        };
        let (expected, found) = (progress(expected), progress(checkpoint));
        (expected != found)
            .then(|| format!("at step {step} the progress is {found}, and {expected} without a kill"))
    }

    /// The last step.
    pub(super) fn last(&self) -> u64 {
        STEPS
    }
}

/// The words of the command line.
pub(super) const ARGUMENTS: [&str; 4] = ["train", "--config", "x.toml", "--json"];

fn expect_success(answer: &Answer) -> Result<(), Error> {
    let is_fine = answer.is_success() && answer.harm().is_none();
    if is_fine {
        Ok(())
    } else {
        Err(format!("a training without kills fails: {}", answer.last_words()).into())
    }
}

type Whole = (BTreeMap<u64, Checkpoint>, Vec<(u64, f64)>);

/// All checkpoints and evaluations of a training.
fn whole(arena: &Arena, config: &str) -> Result<Whole, Error> {
    let folder = arena.folder()?;
    folder.write("x.toml", config)?;
    let answer = arena.oomph(folder.path()).arguments(ARGUMENTS).run()?;
    expect_success(&answer)?;
    let (checkpoints, damaged) = run_files::checkpoints(&folder.at("run"))?;
    if let Some(problem) = damaged.first() {
        return Err(format!("a training without kills leaves {problem}").into());
    }
    let evaluation = |event: &Value| {
        (event["event"] == "eval").then(|| Some((event["step"].as_u64()?, event["eval_loss"].as_f64()?)))?
    };
    let evaluations: Vec<_> = events(&answer).iter().filter_map(evaluation).collect();
    let checkpoints: BTreeMap<_, _> = checkpoints.into_iter().map(|it| (it.step(), it)).collect();
    if evaluations.len() < 3 || !checkpoints.contains_key(&STEPS) {
        return Err("a training without kills reports too little to compare with".into());
    }
    Ok((checkpoints, evaluations))
}

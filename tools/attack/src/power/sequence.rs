//! The commands whose writes are recorded.

use std::path::Path;

use super::record::{Recording, record};
use crate::{
    Arena, Error, Folder, Program,
    recipe::{RECIPES, Recipe},
    run_files::checkpoints,
};

/// A command, and what is done before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence {
    pub(super) name: &'static str,
    recipe: &'static str,
    /// How often is evaluated and saved, and how many checkpoints are kept.
    eval_every: usize,
    save_every: usize,
    keep_last: usize,
    before: &'static [&'static [&'static str]],
    command: &'static [&'static str],
    pub(super) goal: Goal,
}

/// What a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// A run that can be resumed.
    Training,
    /// A file that is complete or absent.
    File {
        path: &'static str,
        /// Whether the file is on the disk once the command has ended.
        is_flushed: bool,
    },
}

/// The last step of a training.
pub(super) const STEPS: usize = 8;

const TRAIN: &[&str] = &["train", "--config", "c.toml"];
const HALF: &[&str] = &["train", "--config", "c.toml", "--set", "train.steps=4"];
const RESUME: &[&str] = &["train", "--config", "c.toml", "--resume"];
const REWIND: &[&str] = &["train", "--config", "c.toml", "--resume", "run/checkpoints/step-00000004"];
const EXPORT: &[&str] = &["export", "run", "--to", "out.safetensors"];
const EXPORT_OTHER: &[&str] = &["export", "run", "--to", "out.safetensors", "--layout", "oomph"];
const EXPORT_OVER: &[&str] = &["export", "run", "--to", "out.safetensors", "--force"];
const PLAN: &[&str] = &["plan", "--config", "c.toml", "--batch", "8", "--html", "page.html"];
const PLAN_OTHER: &[&str] = &["plan", "--config", "c.toml", "--batch", "4", "--html", "page.html"];
const PLAN_OVER: &[&str] = &["plan", "--config", "c.toml", "--batch", "8", "--html", "page.html", "--force"];

const fn training(name: &'static str, recipe: &'static str, keep_last: usize) -> Sequence {
    let (eval_every, save_every) = (3, 2);
    let goal = Goal::Training;
    Sequence { name, recipe, eval_every, save_every, keep_last, before: &[], command: TRAIN, goal }
}

const fn file(
    name: &'static str,
    path: &'static str,
    is_flushed: bool,
    before: &'static [&'static [&'static str]],
    command: &'static [&'static str],
) -> Sequence {
    Sequence { before, command, goal: Goal::File { path, is_flushed }, ..training(name, "lstm", 10) }
}

/// All of them.
pub(super) const SEQUENCES: [Sequence; 11] = [
    training("save", "lstm", 10),
    training("save adam", "adamw", 10),
    training("save two ranks", "ddp", 10),
    Sequence { eval_every: 1, save_every: 100, ..training("save the best", "lstm", 10) },
    training("prune", "lstm", 1),
    Sequence { before: &[HALF], command: RESUME, ..training("resume", "lstm", 1) },
    Sequence { before: &[TRAIN], command: REWIND, ..training("resume from earlier", "lstm", 4) },
    file("export", "out.safetensors", true, &[TRAIN], EXPORT),
    file("export over another", "out.safetensors", true, &[TRAIN, EXPORT_OTHER], EXPORT_OVER),
    file("page", "page.html", false, &[], PLAN),
    file("page over another", "page.html", false, &[PLAN_OTHER], PLAN_OVER),
];

impl Sequence {
    fn recipe(&self) -> Result<&'static Recipe, Error> {
        let found = RECIPES.iter().find(|recipe| recipe.name == self.recipe);
        found.ok_or_else(|| format!("no recipe is named `{}`", self.recipe).into())
    }

    /// The configuration. `keep_last` differs between the recorded run and the one that it is compared with.
    fn config(&self, keep_last: usize) -> Result<String, Error> {
        let Self { eval_every, save_every, .. } = self;
        let train = format!("steps = {STEPS}, eval_every = '{eval_every} steps'");
        let run = format!("save_every = '{save_every} steps', keep_last = {keep_last}, log_every = 1");
        Ok(self.recipe()?.config(&train, &run))
    }

    /// The command that a user gives after the loss of power.
    pub(super) fn again(&self, program: Program) -> Program {
        match self.goal {
            Goal::Training => program.arguments(RESUME),
            Goal::File { .. } if self.command.contains(&"--force") => program.arguments(self.command),
            Goal::File { .. } => program.arguments(self.command.iter().chain(&["--force"])),
        }
    }

    /// Runs a training that never stops and keeps all checkpoints.
    pub(super) fn unbroken(&self, arena: &Arena) -> Result<Folder, Error> {
        const ALL: usize = 1000;
        let folder = arena.folder()?;
        folder.write("c.toml", self.config(ALL)?)?;
        succeed(arena.oomph(folder.path()).arguments(TRAIN))?;
        Ok(folder)
    }

    /// Runs the command, and records it.
    pub(super) fn record(&self, arena: &Arena) -> Result<Recording, Error> {
        let folder = arena.folder()?;
        folder.write("c.toml", self.config(self.keep_last)?)?;
        for command in self.before {
            succeed(arena.oomph(folder.path()).arguments(*command))?;
        }
        let reported = newest_save(&folder.at("run"))?;
        record(arena.oomph(folder.path()).arguments(self.command), folder.path(), reported)
    }
}

fn succeed(program: Program) -> Result<(), Error> {
    let answer = program.run()?;
    if answer.is_success() { Ok(()) } else { Err(answer.last_words().into()) }
}

/// The number of a run's last save; 0 without one.
fn newest_save(run: &Path) -> Result<u64, Error> {
    let (whole, damaged) = checkpoints(run)?;
    match damaged.first() {
        Some(problem) => Err(problem.clone().into()),
        None => Ok(whole.iter().map(save_number).max().unwrap_or(0)),
    }
}

/// The number of the save that wrote a checkpoint.
pub(super) fn save_number(checkpoint: &crate::run_files::Checkpoint) -> u64 {
    checkpoint.state["save_number"].as_u64().unwrap_or(0)
}

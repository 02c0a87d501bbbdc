//! Cases with the program `poisoned`: a value is put into a training from within.

use std::{collections::BTreeMap, fs, path::Path, sync::OnceLock};

use oomph_core::Generator;

use super::{
    Seen, finite,
    poison::Poison,
    recipes::{POISON_RECIPES, PoisonRecipe, STEPS},
    verdict::{self, End, Left},
};
use crate::{
    Error,
    answer::{Answer, Program},
    arena::{Arena, Case, Folder},
    run_files::{self, Checkpoint},
};

/// What each recipe trains without a poison: the checksums of each step.
#[derive(Debug, Default)]
pub(super) struct References([OnceLock<Trained>; POISON_RECIPES.len()]);

/// What a training without a poison does.
#[derive(Debug)]
struct Trained {
    /// The checksums of what was trained, by step and file.
    steps: BTreeMap<u64, BTreeMap<String, String>>,
    /// How many steps fp16 skips by itself.
    skipped: u64,
}

/// How often a case draws another poison because one did not take place.
const MOST_DRAWS: usize = 20;

/// Runs a case of one of the places of [`Poison`].
pub(super) fn run(
    arena: &Arena,
    references: &References,
    place: &'static str,
    mut case: Case,
) -> Result<Seen, Error> {
    let recipes = POISON_RECIPES.iter().enumerate();
    let possible: Vec<_> = recipes.filter(|(_, recipe)| Poison::is_possible(recipe, place)).collect();
    for _ in 0..MOST_DRAWS {
        let (at, recipe) = possible[case.random.below(possible.len())];
        let poison = Poison::draw(recipe, place, &mut case.random);
        if let Some(seen) = tried(arena, references, &Draw { at, poison }, &mut case)? {
            return Ok(seen);
        }
    }
    Err(format!("numbers: none of {MOST_DRAWS} poisons of case {} took place", case.number).into())
}

/// What a case draws.
struct Draw {
    /// The number of its recipe.
    at: usize,
    poison: Poison,
}

/// Tries a poison; `None` if it did not take place.
fn tried(
    arena: &Arena,
    references: &References,
    draw: &Draw,
    case: &mut Case,
) -> Result<Option<Seen>, Error> {
    let Draw { at, ref poison } = *draw;
    let recipe = &POISON_RECIPES[at];
    let reference = reference(arena, recipe, &references.0[at])?;
    let folder = arena.folder()?;
    folder.write("poisoned.toml", config(recipe, &mut case.random))?;
    let mark = folder.at("mark");
    let mut program = train(arena, &folder, &[]);
    program.command().env("POISON", poison.variable()).env("POISON_MARK", &mark);
    let answer = program.run()?;
    if !mark.exists() && answer.is_success() {
        return Ok(None);
    }
    let judged = judge(&answer, &folder, recipe, poison, reference);
    // A few resume, and a few export: each takes as long as the training.
    let judged = judged.and_then(|left| {
        if case.random.chance(0.25) {
            resumed(arena, &folder, &left, poison, reference)?;
        }
        if case.random.chance(0.125) {
            exported(arena, &folder, &left)?;
        }
        Ok(left.end)
    });
    let what = format!(
        "case {}, seed {}: `{}` with POISON='{}'",
        case.number,
        arena.seed,
        recipe.name,
        poison.variable()
    );
    Ok(Some(Seen::of(poison.place, judged, &what)))
}

/// A configuration that evaluates, saves and logs at moments of its own.
fn config(recipe: &PoisonRecipe, random: &mut Generator) -> String {
    let mut one_of = |choices: &[&'static str]| choices[random.below(choices.len())];
    let eval = one_of(&["1 step", "2 steps", "1 epoch", "never"]);
    let save = one_of(&["1 step", "1 step", "2 steps", "3 steps", "1 epoch"]);
    let log = one_of(&["1", "2", "5", "10"]);
    let histograms = one_of(&["never", "never", "1 step"]);
    recipe.config(
        &format!("eval_every = '{eval}'"),
        &format!("save_every = '{save}', log_every = {log}, histograms = '{histograms}'"),
    )
}

fn train(arena: &Arena, folder: &Folder, more: &[&str]) -> Program {
    let words = ["train", "--config", "poisoned.toml"].into_iter().chain(more.iter().copied());
    Program::new(&arena.programs.join("poisoned"), folder.path()).arguments(words)
}

/// What a recipe trains without a poison, with a checkpoint of every step.
fn reference<'a>(
    arena: &Arena,
    recipe: &PoisonRecipe,
    cell: &'a OnceLock<Trained>,
) -> Result<&'a Trained, Error> {
    if let Some(trained) = cell.get() {
        return Ok(trained);
    }
    let folder = arena.folder()?;
    folder.write("poisoned.toml", recipe.config("eval_every = 'never'", "save_every = '1 step'"))?;
    let answer = train(arena, &folder, &[]).run()?;
    let left = verdict::judge(&answer, folder.path(), None)
        .map_err(|problem| format!("`{}` does not train without a poison: {problem}", recipe.name))?;
    if left.checkpoints.len() as u64 != STEPS {
        return Err(format!(
            "`{}` saved {} of {STEPS} steps: {}",
            recipe.name,
            left.checkpoints.len(),
            answer.errors()
        )
        .into());
    }
    let steps = left.checkpoints.iter().map(|checkpoint| (checkpoint.step(), digests(checkpoint))).collect();
    let trained = Trained { steps, skipped: left.skipped };
    // Another thread may have been faster, with the same bytes.
    Ok(cell.get_or_init(|| trained))
}

fn digests(checkpoint: &Checkpoint) -> BTreeMap<String, String> {
    checkpoint.trained().into_iter().map(|(file, digest)| (file.clone(), digest.clone())).collect()
}

fn judge(
    answer: &Answer,
    folder: &Folder,
    recipe: &PoisonRecipe,
    poison: &Poison,
    reference: &Trained,
) -> Result<Left, String> {
    let mut left = verdict::judge(answer, folder.path(), None)?;
    if left.end == End::Skipped && left.skipped <= reference.skipped {
        left.end = End::Absorbed;
    }
    let clean =
        left.checkpoints.iter().filter(|checkpoint| checkpoint.step() <= poison.clean_until(left.named_step));
    for checkpoint in clean {
        same(checkpoint, reference, "before the poison")?;
    }
    if left.end == End::Named {
        let Some(step) = left.named_step else {
            return Err(format!("the error names no step: {}", answer.last_words()));
        };
        let first = if poison.is_of_data() { 1 } else { poison.step + 1 };
        if step < first || poison.named_step().is_some_and(|right| right != step) {
            return Err(format!("the error names step {step}: {}", answer.last_words()));
        }
        let right = poison.named();
        if left.named_step.is_some()
            && error_is_of_parameter(answer)
            && right.is_some_and(|it| left.named != it)
        {
            return Err(format!("the error names `{}`: {}", left.named, answer.last_words()));
        }
        if poison.place == "held-out" {
            return Err(format!("a held-out sample ends the training: {}", answer.last_words()));
        }
        if left.checkpoints.iter().any(|checkpoint| checkpoint.step() >= step) {
            return Err(format!("step {step} was saved: {}", answer.last_words()));
        }
    } else if poison.cannot_be_absorbed(recipe) && left.end == End::Absorbed {
        return Err("it completes as if nothing had happened".into());
    }
    Ok(left)
}

/// Whether the error is about a parameter and not about a loss.
fn error_is_of_parameter(answer: &Answer) -> bool {
    answer.errors().contains(" made ")
}

/// Compares a checkpoint with that of the same step of the training without a poison.
fn same(checkpoint: &Checkpoint, reference: &Trained, when: &str) -> Result<(), String> {
    let expected = reference
        .steps
        .get(&checkpoint.step())
        .ok_or_else(|| format!("step {} is too far", checkpoint.step()))?;
    let found = digests(checkpoint);
    let differs = expected.keys().chain(found.keys()).find(|file| expected.get(*file) != found.get(*file));
    differs.map_or(Ok(()), |file| Err(format!("{when}, `{file}` of step {} differs", checkpoint.step())))
}

/// Resumes from the last checkpoint before the poison, without it: the end must be that of the training without a poison.
fn resumed(
    arena: &Arena,
    folder: &Folder,
    left: &Left,
    poison: &Poison,
    reference: &Trained,
) -> Result<(), String> {
    let is_clean = |checkpoint: &&Checkpoint| checkpoint.step() <= poison.clean_until(left.named_step);
    let from = left.checkpoints.iter().rev().find(is_clean);
    if from.is_none() && !left.checkpoints.is_empty() {
        return Ok(());
    }
    let path = from.map(|checkpoint| checkpoint.path.to_string_lossy().into_owned());
    let more = ["--resume"].into_iter().chain(path.as_deref());
    // From a checkpoint, the resumed training has the configuration that is saved with it.
    let answer = train(arena, folder, &more.collect::<Vec<_>>()).run().map_err(|error| error.to_string())?;
    if !answer.is_success() {
        return Err(format!("it does not resume without the poison: {}", answer.last_words()));
    }
    verdict::judge(&answer, folder.path(), None).map_err(|problem| format!("resumed: {problem}"))?;
    let end = run_files::linked(&folder.at("run"), "latest")?;
    if end.step() != STEPS {
        return Err(format!("resumed, it ends with step {}", end.step()));
    }
    same(&end, reference, "resumed without the poison")
}

/// Exports the weights of the newest checkpoint.
fn exported(arena: &Arena, folder: &Folder, left: &Left) -> Result<(), String> {
    if left.checkpoints.is_empty() {
        return Ok(());
    }
    let words = ["export", "run", "--to", "exported.safetensors"];
    let program = Program::new(&arena.programs.join("poisoned"), folder.path()).arguments(words);
    let answer = program.run().map_err(|error| error.to_string())?;
    if !answer.is_success() {
        return Err(format!("its weights cannot be exported: {}", answer.last_words()));
    }
    let path: &Path = &folder.at("exported.safetensors");
    fs::metadata(path).map_err(|error| error.to_string())?;
    finite::file(path).map_err(|problem| format!("exported: {problem}"))
}

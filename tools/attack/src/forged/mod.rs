//! The attack `forged`: changes values of checkpoints and repairs their checksums.
//!
//! Every command that reads checkpoints then must refuse by name, or do something possible: training ends at its step with
//! finite numbers, and what it saved is resumed again.

mod change;
mod json;
pub(crate) mod tensors;
mod verdict;

use crate::{
    Arena, Case, Error, Folder, Outcome,
    forged::change::{Change, KINDS},
    recipe::RECIPES,
    tally::{self, End, Tried},
    trees,
};

/// The recipes that are trained once, for all cases.
const TRAINED: [&str; 8] = ["lstm", TEXT, "adamw", "adafactor", "fp16", "one-cycle", "resnet", "ddp-adam"];

/// Those whose optimizer has tensors.
const STATEFUL: [&str; 4] = ["adamw", "adafactor", "fp16", "ddp-adam"];

/// A language model, which carries state from batch to batch.
const TEXT: &str = "text";

const LANGUAGE: &str = "model = { name = 'lstm-lm', hidden = 8 }\ndata = { source = 'text', path = 'text.txt', steps = 8, workers = 0 }\n";

/// The commands that read checkpoints.
const COMMANDS: [&str; 8] =
    ["resume", "resume", "resume", "resume the run", "evaluate", "predict", "export", "runs"];

/// The checkpoint that is changed; `step-00000003` lies beside it.
const CHECKPOINT: &str = "run/checkpoints/step-00000006";

/// The step at which a resumed training ends.
const LAST_STEP: u64 = 9;

/// Runs the attack.
pub(crate) fn run(arena: &Arena) -> Result<Outcome, Error> {
    let trained = arena.folder()?;
    for name in TRAINED {
        train(arena, &trained, name)?;
    }
    let tried = arena.each("forged", arena.cases, |case| try_case(arena, &trained, case))?;
    Ok(tally::outcome(&KINDS, tried.into_iter().flatten().collect()))
}

/// Trains a recipe in a folder of its name.
fn train(arena: &Arena, trained: &Folder, name: &str) -> Result<(), Error> {
    let train = "steps = 6, eval_every = '3 steps'";
    let run = "save_every = '3 steps', log_every = 1, tensorboard = false";
    let config = match RECIPES.iter().find(|recipe| recipe.name == name) {
        Some(recipe) => recipe.config(train, run),
        None => format!("{LANGUAGE}train = {{ batch = 3, {train} }}\nrun = {{ directory = 'run', {run} }}\n"),
    };
    trained.write(format!("{name}/text.txt"), "the quick brown fox jumps over the lazy dog\n".repeat(30))?;
    trained.write(format!("{name}/c.toml"), config)?;
    trained.write(format!("{name}/image.png"), crate::hostile::formats::png(1)?)?;
    let answer = arena.oomph(&trained.at(name)).arguments(["train", "--config", "c.toml"]).run()?;
    match answer.is_success() {
        true => Ok(()),
        false => Err(format!("the recipe {name} cannot be trained: {}", answer.last_words()).into()),
    }
}

/// Forges a checkpoint, and lets a command read it. `None` if another kind is asked for.
fn try_case(arena: &Arena, trained: &Folder, mut case: Case) -> Result<Option<Tried>, Error> {
    let kind = KINDS[case.number % KINDS.len()];
    if !kind.contains(&arena.only) {
        return Ok(None);
    }
    // Only language models carry state, and plain gradient descent has no tensors of its own.
    let recipe = match kind {
        "carried state" => TEXT,
        "tensors of the optimizer" => STATEFUL[case.random.below(STATEFUL.len())],
        _ => TRAINED[case.random.below(TRAINED.len())],
    };
    let folder = arena.folder()?;
    trees::copy(&trained.at(recipe), folder.path())?;
    let Some(change) = change::make(kind, &mut case.random, &folder.at(CHECKPOINT))? else { return Ok(None) };
    let command = COMMANDS[case.random.below(COMMANDS.len())];
    let (answer, harm) = attack(arena, &folder, recipe, command, &change)?;
    let Case { number, .. } = case;
    let harm = harm.map(|harm| {
        let Arena { seed, .. } = arena;
        format!("forged case {number}, seed {seed}, {recipe}, {}: {command}: {harm}", change.about)
    });
    Ok(Some(Tried { kind, end: End::of(&answer), harm, count: 1 }))
}

fn attack(
    arena: &Arena,
    folder: &Folder,
    recipe: &str,
    command: &str,
    change: &Change,
) -> Result<(crate::Answer, Option<String>), Error> {
    let answer = verdict::ask(arena, folder, &verdict::arguments(command, recipe, CHECKPOINT))?;
    let mut harm = verdict::harm_of(&answer, change);
    if harm.is_none() && answer.is_success() {
        harm = match command {
            "resume" | "resume the run" => verdict::harm_of_training(arena, folder)?,
            "evaluate" | "predict" => verdict::harm_of_events(&answer),
            "export" => verdict::harm_of_export(folder),
            _ => None,
        };
    } else if harm.is_none() && answer.errors().contains("name the run directory instead") {
        harm = verdict::harm_of_hint(arena, folder, recipe, command)?;
    }
    Ok((answer, harm))
}

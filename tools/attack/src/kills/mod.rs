//! The attack `kills`: kills trainings at random moments and at system calls, and resumes what is left.
//!
//! A chain kills the same training ten times, each time from where the last kill left it, and then resumes it to its end.
//! After each kill the run directory is checked without oomph's code. What the kills leave must be what an unbroken
//! training had at the same step, to the byte. `--only` filters by the names of recipes.

mod chain;
mod checks;
mod reference;

use std::{collections::BTreeMap, sync::OnceLock};

use crate::{Arena, Case, Error, Outcome, recipe::RECIPES, trace};
use chain::{Chain, Kill};
use reference::{KEPT, Reference};

/// The kills of a chain.
const KILLS: usize = 10;

/// The references, each made by the first chain that needs it.
type References = Vec<OnceLock<Result<Reference, String>>>;

/// Runs the attack.
pub(crate) fn run(arena: &Arena) -> Result<Outcome, Error> {
    let recipes: Vec<_> = RECIPES.iter().filter(|recipe| recipe.name.contains(&arena.only)).collect();
    if recipes.is_empty() {
        return Err(format!("no recipe is called `{}`", arena.only).into());
    }
    let missing = trace::missing();
    let references: References = (0..recipes.len() * KEPT.len()).map(|_| OnceLock::new()).collect();
    let chains = arena.each("kills", arena.cases.div_ceil(KILLS), |mut case: Case| {
        let variant = case.number % references.len();
        let (recipe, keep_last) = (recipes[variant % recipes.len()], KEPT[variant / recipes.len()]);
        let made = references[variant].get_or_init(|| {
            Reference::new(arena, recipe, keep_last, missing.is_none()).map_err(|error| error.to_string())
        });
        let reference = made.as_ref().map_err(String::clone)?;
        let kills = KILLS.min(arena.cases - case.number * KILLS);
        Chain::new(arena, reference, &mut case)?.run(kills)
    })?;
    Ok(outcome(chains.into_iter().flatten().collect(), missing))
}

/// What is counted of the kills of a kind.
#[derive(Debug, Default)]
struct Row {
    tried: usize,
    during_save: usize,
    resumed: usize,
    equal: usize,
    harms: usize,
}

impl Row {
    fn add(&mut self, kill: &Kill) {
        self.tried += 1;
        self.during_save += usize::from(kill.is_during_save);
        self.resumed += usize::from(kill.is_equal.is_some());
        self.equal += usize::from(kill.is_equal == Some(true));
        self.harms += kill.harms.len();
    }

    fn cells(&self, name: &str) -> Vec<String> {
        let numbers = [self.tried, self.during_save, self.resumed, self.equal, self.harms];
        let numbers = numbers.iter().map(usize::to_string);
        [name.to_owned()].into_iter().chain(numbers).collect()
    }
}

fn outcome(kills: Vec<Kill>, missing: Option<String>) -> Outcome {
    let (mut rows, mut all) = (BTreeMap::<&str, Row>::new(), Row::default());
    for kill in &kills {
        rows.entry(kill.kind).or_default().add(kill);
        all.add(kill);
    }
    Outcome {
        titles: vec![
            "Killed",
            ">Kills",
            ">During a save",
            ">Resumed to the end",
            ">With the same bytes",
            ">Harms",
        ],
        rows: rows.iter().map(|(kind, row)| row.cells(kind)).chain([all.cells("all")]).collect(),
        figures: vec![
            ("during-save", all.during_save.to_string()),
            ("resumed", all.resumed.to_string()),
            ("equal", all.equal.to_string()),
        ],
        tried: all.tried,
        harms: kills.into_iter().flat_map(|kill| kill.harms).collect(),
        skipped: missing.into_iter().map(|reason| format!("kills at system calls: {reason}")).collect(),
    }
}

//! The attack `numbers`: injects NaN and infinity into data, weights, gradients, statistics and scales.
//!
//! Two kinds of cases take turns by place. [`inside`] starts the program `poisoned`, which puts a value into a place of its own
//! training. [`outside`] starts oomph with files and settings that hold or make such values. After each, every file of the
//! run is read: none may hold a number that is not finite. The training must have ended with an error that names step and
//! cause and leaves a whole checkpoint, or be complete.

mod events;
mod finite;
mod forge;
mod inside;
mod outside;
mod poison;
mod recipes;
mod verdict;

use self::verdict::End;
use crate::{Arena, Error, Outcome};

/// What a case showed.
#[derive(Debug)]
struct Seen {
    place: &'static str,
    /// How it ended, or the harm.
    end: Result<End, String>,
}

impl Seen {
    /// `what` says how to repeat the case.
    fn of(place: &'static str, end: Result<End, String>, what: &str) -> Self {
        Self { place, end: end.map_err(|harm| format!("{what}: {harm}")) }
    }
}

/// Runs the attack.
pub(crate) fn run(arena: &Arena) -> Result<Outcome, Error> {
    let (references, bases) = (inside::References::default(), outside::Bases::default());
    let is_there = arena.programs.join("poisoned").is_file();
    let inside_ones = poison::PLACES.iter().filter(|_| is_there);
    let mut places: Vec<&str> = inside_ones.chain(&outside::PLACES).copied().collect();
    places.retain(|place| place.contains(&arena.only));
    let mut outcome = Outcome::default();
    if !is_there {
        outcome.skipped.push("values within a training: the program `poisoned` is not beside oomph".into());
    }
    if places.is_empty() {
        return Ok(outcome);
    }
    let seen = arena.each("numbers", arena.cases, |case| {
        let place = places[case.number % places.len()];
        match outside::PLACES.contains(&place) {
            true => outside::run(arena, &bases, place, case),
            false => inside::run(arena, &references, place, case),
        }
    })?;
    tabulate(&places, seen, &mut outcome);
    Ok(outcome)
}

/// Counts the cases of each place.
fn tabulate(places: &[&'static str], seen: Vec<Seen>, outcome: &mut Outcome) {
    outcome.titles = vec![
        "where the value is put",
        ">tried",
        ">ended with its name",
        ">steps skipped (fp16)",
        ">absorbed",
        ">harms",
    ];
    outcome.tried = seen.len();
    for place in places {
        let here = || seen.iter().filter(|seen| seen.place == *place);
        let ended = |end: End| here().filter(|seen| seen.end == Ok(end)).count();
        let harms = here().filter(|seen| seen.end.is_err()).count();
        let counts = [here().count(), ended(End::Named), ended(End::Skipped), ended(End::Absorbed), harms];
        let cells = counts.iter().map(usize::to_string);
        outcome.rows.push([(*place).to_owned()].into_iter().chain(cells).collect());
    }
    outcome.harms.extend(seen.into_iter().filter_map(|seen| seen.end.err()));
}

//! The attack `escapes`: puts control characters wherever a text comes from outside.
//!
//! No command may pass one on, neither to a file nor to a terminal; and no text may pass for a line of oomph's own.

mod places;
mod terminal;
mod texts;

use std::time::Duration;

use oomph_core::printable;
use serde_json::Value;

use self::{
    places::{Asked, PLACES},
    texts::Text,
};
use crate::{Arena, Case, Error, Folder, Outcome, answer::Program, hostile::world, trees};

/// How many texts a case has.
const TEXTS: usize = 10;

/// The longest time that a command may take.
const LIMIT: Duration = Duration::from_secs(60);

/// What a case did.
struct Tried {
    place: &'static str,
    commands: usize,
    terminals: usize,
    /// How many of the texts were shown.
    shown: usize,
    harm: Option<String>,
}

/// Runs the attack. `arena.cases` is the number of texts.
pub(crate) fn run(arena: &Arena) -> Result<Outcome, Error> {
    let world = world::make(arena)?;
    let count = arena.cases.div_ceil(TEXTS);
    let tried = arena.each("escapes", count, |case| try_case(arena, &world, case))?;
    Ok(outcome(&tried.into_iter().flatten().collect::<Vec<_>>()))
}

fn outcome(tried: &[Tried]) -> Outcome {
    let mut outcome = Outcome {
        titles: vec!["where the texts are", ">texts", ">shown", ">commands", ">on a terminal", ">harms"],
        ..Outcome::default()
    };
    for (place, _, _) in &PLACES {
        let of_place: Vec<_> = tried.iter().filter(|it| it.place == *place).collect();
        if of_place.is_empty() {
            continue;
        }
        let sum = |count: fn(&Tried) -> usize| of_place.iter().map(|it| count(it)).sum::<usize>().to_string();
        outcome.rows.push(vec![
            (*place).to_owned(),
            (of_place.len() * TEXTS).to_string(),
            sum(|it| it.shown),
            sum(|it| it.commands),
            sum(|it| it.terminals),
            sum(|it| it.harm.is_some().into()),
        ]);
    }
    let commands: usize = tried.iter().map(|it| it.commands).sum();
    outcome.figures.push(("commands", commands.to_string()));
    outcome.tried = tried.len() * TEXTS;
    outcome.harms = tried.iter().filter_map(|it| it.harm.clone()).collect();
    outcome
}

/// Puts texts into a place, and runs the commands that may show them. `None` if another place is asked for.
fn try_case(arena: &Arena, world: &Folder, mut case: Case) -> Result<Option<Tried>, Error> {
    let (place, source, put) = PLACES[case.number % PLACES.len()];
    if !place.contains(&arena.only) {
        return Ok(None);
    }
    let folder = arena.folder()?;
    trees::copy(&world.at(source), folder.path())?;
    let texts: Vec<_> = (0..TEXTS).map(|number| Text::new(&mut case.random, case.number, number)).collect();
    let all = put(&mut case.random, &folder, &texts)?;
    let mut tried = Tried { place, commands: all.len(), terminals: 0, shown: 0, harm: None };
    let mut outputs = String::new();
    for asked in all {
        let is_terminal = case.random.chance(0.15);
        tried.terminals += usize::from(is_terminal);
        let (output, harm) = ask(arena, &folder, &asked, is_terminal)?;
        outputs += &output;
        let words: Vec<_> = asked.words.iter().map(|word| printable(word.to_string_lossy())).collect();
        let (Arena { seed, .. }, number) = (arena, case.number);
        tried.harm = tried.harm.or(harm.map(|harm| {
            let variables = printable(format!("{:?}", asked.variables));
            let terminal = if is_terminal { "on a terminal" } else { "on pipes" };
            format!(
                "escapes case {number}, seed {seed}, {place}, {terminal}: {} {variables}: {harm}",
                words.join(" ")
            )
        }));
    }
    tried.shown = texts.iter().filter(|text| outputs.contains(&text.tag)).count();
    Ok(Some(tried))
}

/// Runs a command: what it showed, and what was wrong.
fn ask(
    arena: &Arena,
    folder: &Folder,
    asked: &Asked,
    is_terminal: bool,
) -> Result<(String, Option<String>), Error> {
    let mut program: Program = arena.oomph(folder.path()).arguments(&asked.words).within(LIMIT);
    // The system refuses none of these texts: they have no zero.
    program.command().envs(asked.variables.iter().map(|(name, value)| (name, value)));
    // What a model generates may have lines of its own.
    let is_generated = asked.words.iter().any(|word| word == "--prompt");
    let forged = |output: &str| if is_generated { None } else { forged_line(output) };
    if is_terminal {
        let (answer, shown) = terminal::run(program, LIMIT)?;
        let output = String::from_utf8_lossy(&shown).into_owned();
        // What the terminal got is not in the answer, which therefore seems to say nothing.
        let harm = if answer.code() == Some(1) { None } else { answer.harm() };
        let harm =
            harm.or_else(|| terminal::harm(&shown)).or_else(|| panicked(&output)).or_else(|| forged(&output));
        return Ok((output, harm));
    }
    let answer = program.run()?;
    let words = [&*answer.stdout, &answer.stderr].concat();
    let output = String::from_utf8_lossy(&words).into_owned();
    let has_styles = asked.variables.iter().any(|(name, _)| *name == "CLICOLOR_FORCE");
    let harm = if has_styles { terminal::harm(&words) } else { answer.harm() };
    let is_json = asked.words.iter().any(|word| word == "--json");
    let harm = harm
        .or_else(|| panicked(&output))
        .or_else(|| forged(&output))
        .or_else(|| str::from_utf8(&words).is_err().then(|| "its words are no UTF-8".to_owned()))
        .or_else(|| is_json.then(|| not_json(&answer.stdout)).flatten());
    Ok((output, harm))
}

/// A panic, also where the answer does not know the words.
fn panicked(output: &str) -> Option<String> {
    output.contains("this is a bug").then(|| format!("panics: {}", printable(output.trim())))
}

/// A line that a text made, and that passes for one of oomph's.
fn forged_line(output: &str) -> Option<String> {
    let is_forged = output.lines().any(|line| line.starts_with("error: forged"));
    is_forged.then(|| "a text passes for a line of its own".to_owned())
}

/// The first line that is no JSON.
fn not_json(stdout: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(stdout);
    let bad = text.lines().find(|line| serde_json::from_str::<Value>(line).is_err())?;
    Some(format!("no JSON: {}", printable(bad)))
}

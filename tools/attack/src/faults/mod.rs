//! The attack `faults`: lets system calls fail, or write only a part, in every command that writes.
//!
//! Each command is run undisturbed first, which counts its calls. In a case one of them fails, once or from then on, or
//! moves only a part of its bytes. The command may refuse with words, or go on with a warning where that loses nothing;
//! then it is run again and must do all that it does undisturbed. `--only` filters by the names of commands.

mod commands;
mod fault;
mod files;
mod verdict;

use std::{collections::BTreeMap, sync::OnceLock};

use crate::{Arena, Case, Error, Outcome, trace};
use commands::{COMMANDS, Prepared};
use fault::Fault;
use verdict::End;

/// A case whose fault was never reached draws another, so often.
const MOST_DRAWS: usize = 50;

/// What a case found.
#[derive(Debug)]
struct Found {
    command: &'static str,
    end: End,
    /// How many faults were drawn before whose calls were never reached.
    missed: usize,
    harm: Option<String>,
}

/// Runs the attack.
pub(crate) fn run(arena: &Arena) -> Result<Outcome, Error> {
    if let Some(reason) = trace::missing() {
        return Ok(Outcome { skipped: vec![reason], ..Outcome::default() });
    }
    let commands: Vec<_> = COMMANDS.iter().filter(|command| command.name.contains(&arena.only)).collect();
    if commands.is_empty() {
        return Err(format!("no command is called `{}`", arena.only).into());
    }
    let prepared: Vec<OnceLock<Result<Prepared, String>>> =
        commands.iter().map(|_| OnceLock::new()).collect();
    let cases = arena.each("faults", arena.cases, |case: Case| {
        let which = case.number % commands.len();
        let made = prepared[which]
            .get_or_init(|| Prepared::new(arena, commands[which]).map_err(|error| error.to_string()));
        try_case(arena, made.as_ref().map_err(String::clone)?, case)
    })?;
    Ok(outcome(cases))
}

fn try_case(arena: &Arena, prepared: &Prepared, mut case: Case) -> Result<Found, Error> {
    for missed in 0..MOST_DRAWS {
        let (kind, count) = prepared.calls[case.random.below(prepared.calls.len())];
        let mut fault = Fault::draw(kind, count, &mut case.random);
        let folder = prepared.folder(arena)?;
        let answer = prepared.disturbed(arena, &folder, &mut |kind, call| {
            if kind == fault.kind { fault.act(call) } else { trace::Action::Continue }
        })?;
        if fault.hit.is_none() {
            continue;
        }
        let (end, problems) = verdict::judge(arena, prepared, &folder, &fault, &answer)?;
        let (number, seed, label, words) = (case.number, arena.seed, prepared.command.label(), fault.words());
        let told = |problems: String| format!("case {number}, seed {seed}, {label}, {words}: {problems}");
        let harm = (!problems.is_empty()).then(|| told(problems.join("; ")));
        return Ok(Found { command: prepared.command.name, end, missed, harm });
    }
    Err(format!("{}: none of {MOST_DRAWS} faults was reached", prepared.command.label()).into())
}

/// What is counted of the cases of a command.
#[derive(Debug, Default)]
struct Row {
    tried: usize,
    ends: [usize; 3],
    harms: usize,
}

impl Row {
    fn add(&mut self, found: &Found) {
        self.tried += 1;
        self.ends[found.end as usize] += 1;
        self.harms += usize::from(found.harm.is_some());
    }

    fn cells(&self, name: &str) -> Vec<String> {
        let numbers = [self.tried].into_iter().chain(self.ends).chain([self.harms]);
        [name.to_owned()].into_iter().chain(numbers.map(|number| number.to_string())).collect()
    }
}

fn outcome(cases: Vec<Found>) -> Outcome {
    let (mut rows, mut all) = (BTreeMap::<&str, Row>::new(), Row::default());
    for found in &cases {
        rows.entry(found.command).or_default().add(found);
        all.add(found);
    }
    let missed: usize = cases.iter().map(|found| found.missed).sum();
    Outcome {
        titles: vec![
            "Command",
            ">Faults",
            ">As undisturbed",
            ">With a warning",
            ">Refused with words",
            ">Harms",
        ],
        rows: rows.iter().map(|(command, row)| row.cells(command)).chain([all.cells("all")]).collect(),
        figures: vec![("missed", missed.to_string())],
        tried: all.tried,
        harms: cases.into_iter().filter_map(|found| found.harm).collect(),
        skipped: Vec::new(),
    }
}

//! `attack NAME`: see the library. `cargo xtask attack` builds it with the programs that it attacks, and starts it.

use std::{env, path::PathBuf, process::ExitCode, time::Instant};

use oomph_attack::{ATTACKS, Arena, Attack, Error, Outcome};
use oomph_tree::measured;

const USAGE: &str = "usage: attack --oomph PATH [--long] [--cases N] [--case NUMBER] [--seed N] [--only WORD] [--save] [NAME …]

Without a name, all attacks run one after the other. `--save` writes docs/tables/attack-NAME.json, and needs `--long`.";

/// The command line.
#[derive(Default)]
struct Arguments {
    oomph: Option<PathBuf>,
    is_long: bool,
    cases: Option<usize>,
    case: Option<usize>,
    seed: u64,
    only: String,
    is_saved: bool,
    names: Vec<String>,
}

fn main() -> ExitCode {
    match read(env::args().skip(1)).and_then(|arguments| run(&arguments)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn read(mut words: impl Iterator<Item = String>) -> Result<Arguments, Error> {
    let mut arguments = Arguments::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("`{word}` needs a value\n\n{USAGE}"));
        match &*word {
            "--oomph" => arguments.oomph = Some(value()?.into()),
            "--long" => arguments.is_long = true,
            "--cases" => arguments.cases = Some(number(&value()?)?),
            "--case" => arguments.case = Some(number(&value()?)?),
            "--seed" => arguments.seed = number(&value()?)? as u64,
            "--only" => arguments.only = value()?,
            "--save" => arguments.is_saved = true,
            name if ATTACKS.iter().any(|attack| attack.name == name) => arguments.names.push(word),
            _ => return Err(format!("`{word}` is no attack and no option\n\n{USAGE}\n\n{}", listed()).into()),
        }
    }
    let is_part = arguments.cases.is_some() || arguments.case.is_some() || !arguments.only.is_empty();
    if arguments.is_saved && (!arguments.is_long || is_part) {
        return Err("`--save` needs `--long` alone: the documents show whole runs".into());
    }
    Ok(arguments)
}

fn number(text: &str) -> Result<usize, Error> {
    text.parse().map_err(|_| format!("`{text}` is no number").into())
}

fn listed() -> String {
    ATTACKS.iter().map(|Attack { name, summary, .. }| format!("{name}: {summary}\n")).collect()
}

/// Runs the attacks; the number of harms.
fn run(arguments: &Arguments) -> Result<usize, Error> {
    let oomph = arguments.oomph.clone().ok_or_else(|| format!("`--oomph` is missing\n\n{USAGE}"))?;
    let oomph = oomph.canonicalize().map_err(|error| format!("`{}`: {error}", oomph.display()))?;
    let is_chosen = |attack: &&Attack| {
        arguments.names.is_empty() || arguments.names.iter().any(|name| name == attack.name)
    };
    let mut harms = 0;
    for attack in ATTACKS.iter().filter(is_chosen) {
        harms += run_one(attack, arguments, oomph.clone())?;
    }
    Ok(harms)
}

fn run_one(attack: &Attack, arguments: &Arguments, oomph: PathBuf) -> Result<usize, Error> {
    let usual = if arguments.is_long { attack.long_cases } else { attack.short_cases };
    let arena = Arena {
        programs: oomph.parent().map(PathBuf::from).unwrap_or_default(),
        oomph,
        cases: arguments.cases.unwrap_or(usual),
        case: arguments.case,
        seed: arguments.seed,
        only: arguments.only.clone(),
    };
    println!("\n== {}: {}", attack.name, attack.summary);
    let start = Instant::now();
    let outcome = (attack.run)(&arena)?;
    report(attack, &outcome, arguments, start)?;
    Ok(outcome.harms.len())
}

fn report(attack: &Attack, outcome: &Outcome, arguments: &Arguments, start: Instant) -> Result<(), Error> {
    let command = format!("attack {} --long", attack.name);
    let mut table = measured::Measured::begin(&command, arguments.is_saved, &outcome.titles);
    outcome.rows.iter().for_each(|row| table.add(row.clone()));
    for harm in &outcome.harms {
        println!("harm: {harm}");
    }
    for reason in &outcome.skipped {
        println!("skipped: {reason}");
    }
    let (tried, harms, seconds) = (outcome.tried, outcome.harms.len(), start.elapsed().as_secs());
    println!("{}: {tried} tried, {harms} harms, {seconds} s", attack.name);
    let figures = outcome.figures.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let figures = figures.chain([
        ("tried".to_owned(), grouped(tried)),
        ("harms".to_owned(), harms.to_string()),
        ("seconds".to_owned(), seconds.to_string()),
    ]);
    table.data.figures.extend(figures);
    table.end(&format!("attack-{}", attack.name))?;
    Ok(())
}

/// A number with a comma before each group of three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let comma = |(place, digit): (usize, char)| {
        let is_group = place > 0 && (digits.len() - place).is_multiple_of(3);
        [is_group.then_some(','), Some(digit)].into_iter().flatten()
    };
    digits.chars().enumerate().flat_map(comma).collect()
}

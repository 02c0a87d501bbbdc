//! The table of results.

use std::process::ExitCode;

use crate::{
    tally::{Failure, Tally},
    targets::Target,
};

/// Of so many inputs a parser accepts some.
const ENOUGH: u64 = 1000;
/// The titles of the columns.
const TITLES: [&str; 11] = [
    "parser",
    "inputs",
    "largest",
    "accepted",
    "panics",
    "hangs",
    "beyond the bound",
    "most allocated",
    "of the bound",
    "slowest",
    "µs each",
];

/// Prints the results. A failure is the exit code 1, as is a parser that accepts nothing.
pub(crate) fn report(targets: &[Target], tallies: &[Tally]) -> ExitCode {
    println!("| {} |", TITLES.join(" | "));
    println!("|---|{}", "---:|".repeat(TITLES.len() - 1));
    let (mut inputs, mut failures, mut is_blind) = (0, [0; 3], false);
    for (target, tally) in targets.iter().zip(tallies) {
        let counts = *tally.counts();
        let of = |failure: Failure| counts.failures[failure as usize].to_string();
        let (memory, time) = (counts.memory, counts.time);
        let cells = [
            target.name.to_owned(),
            counts.inputs.to_string(),
            counts.largest.to_string(),
            counts.accepted.to_string(),
            of(Failure::Panic),
            of(Failure::Hang),
            of(Failure::BeyondBound),
            format!("{} bytes for {}", memory.amount, memory.size),
            format!("{:.0} %", 100.0 * memory.share),
            match time.size {
                0 => "< 2 ms".to_owned(),
                size => format!("{:.1} ms for {size}", time.amount as f64 / 1000.0),
            },
            format!("{:.1}", counts.time_in_all.as_secs_f64() * 1e6 / counts.inputs.max(1) as f64),
        ];
        println!("| {} |", cells.join(" | "));
        inputs += counts.inputs;
        if counts.accepted == 0 && counts.inputs >= ENOUGH {
            // Its seeds are out of date: the parser refuses all at the first byte.
            eprintln!("failure: {} accepts none of {} inputs", target.name, counts.inputs);
            is_blind = true;
        }
        failures.iter_mut().zip(counts.failures).for_each(|(all, one)| *all += one);
    }
    let [panics, hangs, beyond_bound] = failures;
    println!("\ntotal: inputs={inputs} panics={panics} beyond_bound={beyond_bound} hangs={hangs}");
    if failures == [0; 3] && !is_blind { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

//! The attack `parsers`: feeds damaged bytes to all parsers; needs the program `fuzz_parsers` beside oomph.
//!
//! The program is a part of `cargo xtask`, since it calls the parsers themselves: a process for each of 50 million inputs
//! would take weeks. This attack starts it, and reads its table and its totals.

use std::time::Duration;

use crate::{Answer, Arena, Error, Outcome, Program};

/// The program, and beside which program it lies.
const PROGRAM: &str = "fuzz_parsers";
/// The titles of the program's table.
const TITLES: [&str; 11] = [
    "parser",
    ">inputs",
    ">largest",
    ">accepted",
    ">panics",
    ">hangs",
    ">beyond the bound",
    ">most allocated",
    ">of the bound",
    ">slowest",
    ">µs each",
];
/// The time of so many inputs on a core that is busy with other things. More is a hang.
const MICROSECONDS_EACH: u64 = 100;
/// What the program may take beside the inputs.
const LEAST: Duration = Duration::from_secs(300);

/// Runs the attack.
pub(crate) fn run(arena: &Arena) -> Result<Outcome, Error> {
    let program = arena.programs.join(PROGRAM);
    if !program.is_file() {
        let reason = format!(
            "{} is missing: `cargo build --release -p oomph-tools --bin {PROGRAM}`",
            program.display()
        );
        return Ok(Outcome { titles: TITLES.to_vec(), skipped: vec![reason], ..Outcome::default() });
    }
    let folder = arena.folder()?;
    let words = [
        arena.cases.to_string(),
        "--seed".into(),
        arena.seed.to_string(),
        "--only".into(),
        arena.only.clone(),
    ];
    let limit = LEAST + Duration::from_micros(MICROSECONDS_EACH * arena.cases as u64);
    let answer = Program::new(&program, folder.path()).arguments(&words).within(limit).run()?;
    Ok(outcome(&answer, &format!("{PROGRAM} {}", words.join(" "))))
}

/// The counts of the program's last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Totals {
    inputs: usize,
    panics: usize,
    beyond_bound: usize,
    hangs: usize,
}

impl Totals {
    /// Reads `total: inputs=1 panics=0 beyond_bound=0 hangs=0`.
    fn read(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("total: ")?.split(' ');
        let mut of = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=')?.parse().ok();
        Some(Self {
            inputs: of("inputs")?,
            panics: of("panics")?,
            beyond_bound: of("beyond_bound")?,
            hangs: of("hangs")?,
        })
    }

    fn failures(self) -> usize {
        self.panics + self.beyond_bound + self.hangs
    }
}

/// What the program says, as an outcome. `command` repeats it.
fn outcome(answer: &Answer, command: &str) -> Outcome {
    let text = String::from_utf8_lossy(&answer.stdout);
    let lines = || text.lines().map(str::trim);
    let is_row = |cells: &Vec<String>| cells.len() == TITLES.len() && cells[1].parse::<usize>().is_ok();
    let rows: Vec<_> = lines().filter_map(cells).filter(is_row).collect();
    let mut harms: Vec<String> = answer.errors().lines().filter_map(failure).collect();
    let totals = lines().find_map(Totals::read);
    let aborted = lines().filter(|line| line.starts_with("aborted: "));
    harms.extend(
        aborted.map(|line| format!("{line}: the stack overflows, memory is refused, or it never ends")),
    );
    match totals {
        Some(totals) if totals.failures() > 0 || !answer.is_success() => {
            let Totals { panics, beyond_bound, hangs, .. } = totals;
            harms.push(format!(
                "`{command}`: {panics} panics, {beyond_bound} beyond the bound, {hangs} hangs, {:?}",
                answer.status
            ));
        }
        Some(totals) if totals.inputs == 0 || rows.is_empty() => {
            harms.push(format!("`{command}` fed no parser"));
        }
        Some(_) => {}
        None => {
            harms.push(format!("`{command}` came to no end ({:?}): {}", answer.status, answer.last_words()))
        }
    }
    Outcome {
        titles: TITLES.to_vec(),
        figures: vec![("parsers", rows.len().to_string())],
        tried: totals.map_or(0, |totals| totals.inputs),
        rows,
        harms,
        ..Outcome::default()
    }
}

/// The cells of a line of the table.
fn cells(line: &str) -> Option<Vec<String>> {
    let row = line.strip_prefix("| ")?.strip_suffix(" |")?;
    Some(row.split(" | ").map(str::to_owned).collect())
}

/// A failure that the program tells: the parser, what it did, and where the input lies.
fn failure(line: &str) -> Option<String> {
    line.strip_prefix("failure: ").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

    use super::*;

    fn said(stdout: &str, stderr: &str, status: i32) -> Outcome {
        let answer = Answer {
            status: Some(ExitStatus::from_raw(status)),
            stdout: stdout.into(),
            stderr: stderr.into(),
            wall: Duration::ZERO,
            peak_rss: 0,
        };
        outcome(&answer, "fuzz")
    }

    const TABLE: &str = "| parser | inputs | largest | accepted | panics | hangs | beyond the bound | most allocated | of the bound | slowest | µs each |\n|---|\n| csv | 10 | 9 | 4 | 0 | 0 | 0 | 8 bytes for 9 | 1 % | < 2 ms | 1.0 |\n\n";

    #[test]
    fn a_clean_end_is_no_harm() {
        let outcome = said(&format!("{TABLE}total: inputs=10 panics=0 beyond_bound=0 hangs=0\n"), "", 0);
        assert_eq!((outcome.tried, outcome.rows.len(), outcome.harms.len()), (10, 1, 0));
    }

    #[test]
    fn every_other_end_is_a_harm() {
        let exit_1 = 1 << 8;
        for (stdout, stderr, status, harms) in [
            (
                "total: inputs=10 panics=1 beyond_bound=0 hangs=0",
                "failure: csv panics at 9 bytes: x",
                exit_1,
                2,
            ),
            ("total: inputs=10 panics=0 beyond_bound=0 hangs=1", "", 0, 1),
            ("total: inputs=0 panics=0 beyond_bound=0 hangs=0", "", 0, 1),
            ("total: inputs=10 panics=0 beyond_bound=0 hangs=0", "", exit_1, 1),
            ("aborted: csv: /tmp/x", "thread has overflowed its stack", 134 << 8, 2),
            ("", "", 9, 1),
        ] {
            let outcome = said(&format!("{TABLE}{stdout}\n"), stderr, status);
            assert_eq!(outcome.harms.len(), harms, "{stdout}: {:?}", outcome.harms);
        }
    }
}

//! Attacks on the `oomph` program, from outside: it is started, killed, starved and lied to, and what it leaves is read
//! by code that shares nothing with it.
//!
//! An attack is an entry of [`ATTACKS`]. It runs many cases in an [`Arena`] and gives an [`Outcome`]: how many cases were
//! tried, what happened in them, and each harm. The seed determines all cases that do not depend on a clock.
//!
//! ```
//! assert!(oomph_attack::ATTACKS.iter().all(|attack| attack.short_cases <= attack.long_cases));
//! ```

mod answer;
mod arena;
mod escapes;
mod faults;
mod forged;
mod hostile;
mod kills;
mod limits;
mod numbers;
mod parsers;
mod power;
mod ranks;
mod readers;
mod recipe;
mod run_files;
mod tally;
mod trace;
mod trees;

pub use answer::{Answer, Program};
pub use arena::{Arena, Case, Folder};

/// An attack.
#[derive(Debug)]
pub struct Attack {
    /// Its name on the command line; its table is `docs/tables/attack-{name}.json`.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// The number of cases in `.ci/run`.
    pub short_cases: usize,
    /// The number of cases in the long form, whose figures the documents show.
    pub long_cases: usize,
    /// Runs it.
    pub run: fn(&Arena) -> Result<Outcome, Error>,
}

/// What prevents an attack: of the machine, not of oomph.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// What an attack found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The titles of the table's columns, as in [`oomph_tree::tables::Table::new`].
    pub titles: Vec<&'static str>,
    /// The table's rows.
    pub rows: Vec<Vec<String>>,
    /// Figures of the documents, by name.
    pub figures: Vec<(&'static str, String)>,
    /// How many cases were tried.
    pub tried: usize,
    /// Each harm: a case in which oomph broke a promise.
    pub harms: Vec<String>,
    /// What could not be tried on this machine, and why.
    pub skipped: Vec<String>,
}

/// All attacks.
pub const ATTACKS: &[Attack] = &[
    Attack {
        name: "parsers",
        summary: "feeds damaged bytes to all parsers; needs the program `fuzz_parsers` beside oomph",
        short_cases: 5_000_000,
        long_cases: 50_000_000,
        run: parsers::run,
    },
    Attack {
        name: "kills",
        summary: "kills trainings at random moments and at system calls, and resumes what is left",
        short_cases: 150,
        long_cases: 10_000,
        run: kills::run,
    },
    Attack {
        name: "faults",
        summary: "lets system calls fail, or write only a part, in every command that writes",
        short_cases: 150,
        long_cases: 5_000,
        run: faults::run,
    },
    Attack {
        name: "power",
        summary: "replays recorded writes with everything unsynced dropped or reordered, as after a loss of power",
        short_cases: 600,
        long_cases: 100_000,
        run: power::run,
    },
    Attack {
        name: "forged",
        summary: "changes values of checkpoints and repairs their checksums",
        short_cases: 300,
        long_cases: 1_500,
        run: forged::run,
    },
    Attack {
        name: "hostile",
        summary: "gives broken data, configs, weights and command lines to every command",
        short_cases: 1_000,
        long_cases: 6_000,
        run: hostile::run,
    },
    Attack {
        name: "escapes",
        summary: "puts control characters wherever a text comes from outside",
        short_cases: 2_000,
        long_cases: 20_000,
        run: escapes::run,
    },
    Attack {
        name: "limits",
        summary: "trains under limits of memory that plans say fit, and below them",
        short_cases: 10,
        long_cases: 300,
        run: limits::run,
    },
    Attack {
        name: "readers",
        summary: "reads a run that another process trains, saves and prunes",
        short_cases: 30,
        long_cases: 240,
        run: readers::run,
    },
    Attack {
        name: "ranks",
        summary: "kills, stops, slows and starves ranks of an MPI training",
        short_cases: 6,
        long_cases: 120,
        run: ranks::run,
    },
    Attack {
        name: "numbers",
        summary: "injects NaN and infinity into data, weights, gradients, statistics and scales",
        short_cases: 300,
        long_cases: 1_200,
        run: numbers::run,
    },
];

//! The attack `ranks`: kills, stops, slows, starves and misleads ranks of an MPI training.
//!
//! After each case no process of the job may be left, the errors must be named, and every checkpoint must be whole. The
//! run is then resumed by as many ranks as began it, and must end with the bytes of a run that nobody disturbed.

mod asked;
mod differing;
mod full;
mod job;
mod late;
mod lost;
mod references;
mod system;
mod tensors;
mod training;

use std::{
    collections::BTreeMap,
    fmt, io,
    path::PathBuf,
    process::{Command, Stdio},
};

use self::references::References;
use crate::{Arena, Case, Error, Outcome};

/// What cases share.
#[derive(Debug)]
struct Attack<'a> {
    arena: &'a Arena,
    /// The program with the feature `mpi`.
    oomph: PathBuf,
    references: References,
}

/// What became of a case.
#[derive(Debug)]
struct Verdict {
    /// How the job ended, in a few words.
    ended: String,
    /// What was compared, and equal.
    goal: Goal,
}

/// What a case compared at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    /// The bytes of an undisturbed run of as many ranks.
    SameBytes,
    /// The tensors of an undisturbed run of another number of ranks, up to rounding.
    SameTensors,
    /// Nothing: the job was refused, and wrote nothing.
    Nothing,
}

/// Why a case has no verdict.
#[derive(Debug)]
enum Trouble {
    /// oomph broke a promise.
    Harm(String),
    /// This machine cannot try it.
    Skipped(String),
    /// The machine failed.
    Machine(Error),
}

type Verdicts = Result<Verdict, Trouble>;

/// A kind of cases.
struct Kind {
    name: &'static str,
    run: fn(&Attack<'_>, &mut Case) -> Verdicts,
}

const KINDS: &[Kind] = &[
    Kind { name: "a rank is killed", run: lost::rank },
    Kind { name: "a rank hangs", run: late::hung },
    Kind { name: "rank 0's disk is full", run: full::disk },
    Kind { name: "a rank differs", run: differing::rank },
    Kind { name: "a rank gets a signal", run: asked::rank },
    Kind { name: "a rank is killed while it saves", run: lost::saving },
    Kind { name: "a rank pauses", run: late::paused },
    Kind { name: "a rank may write only small files", run: full::file },
    Kind { name: "mpirun gets a signal", run: asked::launcher },
    Kind { name: "a rank is killed while it resumes", run: lost::resuming },
    Kind { name: "a rank is slow", run: late::slow },
    Kind { name: "a rank gets no more memory", run: full::memory },
    Kind { name: "mpirun is killed", run: lost::launcher },
    Kind { name: "two jobs in one run directory", run: differing::second },
    Kind { name: "another number of ranks resumes", run: asked::other_number },
];

/// Runs the attack.
pub(crate) fn run(arena: &Arena) -> Result<Outcome, Error> {
    let titles = vec!["what is done", "tried", "how the jobs end", "then trained to", "harms"];
    let oomph = arena.programs.join("mpi/oomph");
    if let Some(reason) = missing(&oomph) {
        return Ok(Outcome { titles, skipped: vec![reason], ..Outcome::default() });
    }
    let attack = Attack { arena, oomph, references: References::default() };
    let kinds: Vec<_> = KINDS.iter().filter(|kind| kind.name.contains(&*arena.only)).collect();
    if kinds.is_empty() {
        return Err(format!("no kind of cases has `{}` in its name", arena.only).into());
    }
    let verdicts = arena.each("ranks", arena.cases, |mut case| {
        let kind = kinds[case.number % kinds.len()];
        match (kind.run)(&attack, &mut case) {
            Err(Trouble::Machine(error)) => Err(error),
            result => Ok((case.number, kind.name, result)),
        }
    })?;
    let mut outcome = Outcome { titles, ..Outcome::default() };
    for kind in kinds {
        let of_kind = verdicts.iter().filter(|(_, name, _)| *name == kind.name);
        add(&mut outcome, kind, of_kind.map(|(number, _, result)| (*number, result)), arena.seed);
    }
    Ok(outcome)
}

/// Why the attack cannot be tried here.
fn missing(oomph: &std::path::Path) -> Option<String> {
    if !oomph.is_file() {
        return Some(format!("there is no `{}`: build oomph with the feature `mpi`", oomph.display()));
    }
    let mut mpirun = Command::new("mpirun");
    let mpirun = mpirun.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let runs = mpirun.is_ok_and(|status| status.success());
    (!runs).then(|| "this machine has no mpirun".to_owned())
}

/// Adds the row of a kind.
fn add<'v>(
    outcome: &mut Outcome,
    kind: &Kind,
    results: impl Iterator<Item = (usize, &'v Result<Verdict, Trouble>)>,
    seed: u64,
) {
    let (mut ends, mut goals) = (BTreeMap::<&str, usize>::new(), BTreeMap::<&str, usize>::new());
    let (mut tried, mut harms) = (0, 0);
    for (number, result) in results {
        tried += 1;
        match result {
            Ok(verdict) => {
                *ends.entry(&verdict.ended).or_default() += 1;
                let goal = match verdict.goal {
                    Goal::SameBytes => "the same bytes",
                    Goal::SameTensors => "the same tensors up to 1e-5",
                    Goal::Nothing => continue,
                };
                *goals.entry(goal).or_default() += 1;
            }
            Err(Trouble::Harm(harm)) => {
                harms += 1;
                outcome.harms.push(format!("case {number} of seed {seed}, {}: {harm}", kind.name));
            }
            Err(Trouble::Skipped(reason)) => {
                tried -= 1;
                let reason = format!("{}: {reason}", kind.name);
                if !outcome.skipped.contains(&reason) {
                    outcome.skipped.push(reason);
                }
            }
            // It ended the attack.
            Err(Trouble::Machine(_)) => {}
        }
    }
    if tried == 0 {
        return;
    }
    let told = |counts: BTreeMap<&str, usize>| {
        counts.into_iter().map(|(what, count)| format!("{what}: {count}")).collect::<Vec<_>>().join(", ")
    };
    outcome.tried += tried;
    let row = [kind.name.to_owned(), tried.to_string(), told(ends), told(goals), harms.to_string()];
    outcome.rows.push(row.into());
}

impl Verdict {
    fn new(ended: impl Into<String>, goal: Goal) -> Self {
        Self { ended: ended.into(), goal }
    }
}

impl Trouble {
    /// A harm, in words.
    fn harm(words: impl fmt::Display) -> Self {
        Self::Harm(words.to_string())
    }

    /// Says what was run, where it is a harm.
    fn of(self, what: &str) -> Self {
        match self {
            Self::Harm(harm) => Self::Harm(format!("{what}: {harm}")),
            other => other,
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Machine(error.into())
    }
}

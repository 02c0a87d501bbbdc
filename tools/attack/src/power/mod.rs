//! The attack `power`: replays recorded writes with everything unsynced dropped or reordered, as after a loss of power.
//!
//! As ALICE (Pillai et al., OSDI 2014): the file operations of a command are recorded, and at each point between two of
//! them the states of the disk are made that a file system may leave. Each state is read by code that shares nothing with
//! oomph, and oomph goes on from it.

mod disk;
mod record;
mod sequence;
mod states;
mod survival;
mod verdict;

use sequence::{SEQUENCES, Sequence};
use verdict::Unbroken;

use crate::{Arena, Error, Outcome, trace};

/// With so many cases, or without a number, all states of all points are cases.
const ALL: usize = 100_000;

/// Every so many points are taken if not all are. A short recording has all.
const STRIDE: usize = 3;
const SHORT: usize = 50;

/// What one sequence gave.
struct Row {
    operations: usize,
    points: usize,
    made: usize,
    distinct: usize,
    resumed: usize,
    harms: Vec<String>,
}

/// Runs the attack. A case is a distinct state from which oomph goes on. States beyond the number of cases are only read.
pub(crate) fn run(arena: &Arena) -> Result<Outcome, Error> {
    let mut outcome = Outcome {
        titles: vec![
            "sequence",
            ">operations",
            ">points",
            ">states",
            ">distinct states",
            ">resumed by oomph",
            ">harms",
        ],
        ..Outcome::default()
    };
    if let Some(reason) = trace::missing() {
        outcome.skipped.push(reason);
        return Ok(outcome);
    }
    let chosen: Vec<_> = SEQUENCES.iter().filter(|sequence| sequence.name.contains(&*arena.only)).collect();
    let is_limited = (1..ALL).contains(&arena.cases);
    for (number, sequence) in chosen.iter().enumerate() {
        let share = arena.cases.div_ceil(chosen.len());
        let row = attack(arena, sequence, number, is_limited.then_some(share))?;
        outcome.tried += row.distinct;
        let numbers = [row.operations, row.points, row.made, row.distinct, row.resumed, row.harms.len()];
        let cells = numbers.map(|number| number.to_string());
        outcome.rows.push([sequence.name.to_owned()].into_iter().chain(cells).collect());
        outcome.harms.extend(row.harms);
    }
    Ok(outcome)
}

/// Attacks one sequence. Oomph goes on from at most `most` of its states.
fn attack(arena: &Arena, sequence: &Sequence, number: usize, most: Option<usize>) -> Result<Row, Error> {
    let folder = sequence.unbroken(arena)?;
    let unbroken = Unbroken::read(&folder.at("run"))?;
    let recording = sequence.record(arena)?;
    let name = format!("power {}", sequence.name);
    let stride = if most.is_some() && recording.operations.len() > SHORT { STRIDE } else { 1 };
    let states = states::states(&recording, stride, &mut |point| arena.case(&name, point).random);
    let count = states.distinct.len();
    // Evenly spread over the points; another seed begins elsewhere.
    let step = count.div_ceil(most.unwrap_or(count).max(1)).max(1);
    let begin = arena.case(&name, number).random.below(step);
    let is_resumed = |index: usize| index % step == begin;
    let judged = arena.each(&name, count, |case| {
        let state = &states.distinct[case.number];
        let folder = arena.folder()?;
        record::materialise(&state.tree, folder.path())?;
        let mut harms = verdict::read(sequence, &recording, &unbroken, state, folder.path())?;
        if is_resumed(case.number) {
            harms.extend(verdict::go_on(arena, sequence, &unbroken, folder.path())?);
        }
        let says = |harm: String| harm.replace(&folder.path().display().to_string(), ".");
        Ok(harms.into_iter().map(says).collect::<Vec<_>>())
    })?;
    let harms = judged.iter().zip(&states.distinct).filter(|(harms, _)| !harms.is_empty());
    let harms = harms.map(|(harms, state)| {
        format!("{}, seed {}, {}: {}", sequence.name, arena.seed, state.made, harms.join("; "))
    });
    Ok(Row {
        operations: recording.operations.len(),
        points: states.points,
        made: states.made,
        distinct: count,
        resumed: (0..count).filter(|index| is_resumed(*index)).count(),
        harms: harms.collect(),
    })
}

//! The attack `readers`: reads a run that another process trains, saves and prunes.
//!
//! A round has a new run directory. Its trainer saves every step and keeps one checkpoint beside the best; it is stopped,
//! killed and resumed. Beside it commands and direct readers read, from before the first save on. A case is a second.

mod commands;
mod direct;
mod events;
mod round;
mod tally;

use std::time::Duration;

use self::{round::Round, tally::Tally};
use crate::{Arena, Error, Outcome};

/// The seconds of a round: long enough for some thousand saves, short enough for many first saves.
const ROUND: usize = 10;

/// Runs the attack.
pub(crate) fn run(arena: &Arena) -> Result<Outcome, Error> {
    let mut tally = Tally::default();
    for (number, start) in (0..arena.cases).step_by(ROUND).enumerate() {
        let seconds = ROUND.min(arena.cases - start);
        let mut round = Round::new(arena, arena.case("readers", number))?;
        let found = round.run(Duration::from_secs(seconds as u64))?;
        tally.add(found);
    }
    let rows = tally.rows();
    let [readings, refused, repeated] = tally.sums();
    Ok(Outcome {
        titles: tally::TITLES.to_vec(),
        rows,
        figures: vec![
            ("readings", readings.to_string()),
            ("refused", refused.to_string()),
            ("repeated", repeated.to_string()),
            ("kills", tally.kills.to_string()),
            ("saves", tally.saves.to_string()),
        ],
        tried: readings,
        harms: tally.harms,
        skipped: Vec::new(),
    })
}

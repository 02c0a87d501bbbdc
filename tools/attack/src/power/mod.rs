//! The attack `power`: replays recorded writes with everything unsynced dropped or reordered, as after a loss of power.

use crate::{Arena, Error, Outcome};

/// Runs the attack.
pub(crate) fn run(_arena: &Arena) -> Result<Outcome, Error> {
    Ok(Outcome::default())
}

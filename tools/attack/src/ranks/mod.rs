//! The attack `ranks`: kills, stops, slows and starves ranks of an MPI training.

use crate::{Arena, Error, Outcome};

/// Runs the attack.
pub(crate) fn run(_arena: &Arena) -> Result<Outcome, Error> {
    Ok(Outcome::default())
}

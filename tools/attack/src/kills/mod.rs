//! The attack `kills`: kills trainings at random moments and at system calls, and resumes what is left.

use crate::{Arena, Error, Outcome};

/// Runs the attack.
pub(crate) fn run(_arena: &Arena) -> Result<Outcome, Error> {
    Ok(Outcome::default())
}

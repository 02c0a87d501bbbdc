//! The attack `hostile`: gives broken data, configs, weights and command lines to every command.

pub(crate) mod formats;
pub(crate) mod mutate;

use crate::{Arena, Error, Outcome};

/// Runs the attack.
pub(crate) fn run(_arena: &Arena) -> Result<Outcome, Error> {
    Ok(Outcome::default())
}

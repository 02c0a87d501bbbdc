//! Rules that change parameters and state where they are, by kernels of our own. Their state is recorded under the names
//! of Burn's rules, whose arithmetic they have.

mod adam;
mod sgd;

pub(super) use adam::Adam;
pub(super) use sgd::Sgd;

/// What a part of the state is called.
fn join(prefix: &str, part: &str) -> String {
    format!("{prefix}.{part}")
}

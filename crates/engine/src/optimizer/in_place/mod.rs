//! Optimizers that update parameters and state in place, by kernels of oomph. They compute as Burn's optimizers do, and
//! record their state under the same names.

mod adam;
mod sgd;

pub(super) use adam::Adam;
pub(super) use sgd::Sgd;

/// The name of a part of the state.
fn join(prefix: &str, part: &str) -> String {
    format!("{prefix}.{part}")
}

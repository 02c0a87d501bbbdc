//! Several processes train what one does, and end together whatever becomes of one of them.
//!
//! The binary is started by mpirun. Where there is none, the tests say so and pass.

mod failures;
mod job;
#[path = "../parallel/support.rs"]
#[allow(dead_code, reason = "the tests of threads use more of it")]
mod support;
mod weights;

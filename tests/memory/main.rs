//! The product's promise: what it says of memory is so.

mod accuracy;
mod categories;
mod drift;
mod fit;
mod leaks;
mod limit;
#[path = "../machine/limits.rs"]
mod limits;
mod offload;
mod out_of_memory;
mod replicas;
mod resume;
mod weights;

use std::sync::{Mutex, MutexGuard, PoisonError};

oomph::install_meter!();

/// There is one meter in a process: who reads it is alone.
fn alone() -> MutexGuard<'static, ()> {
    static METER: Mutex<()> = Mutex::new(());
    // A test that failed leaves nothing behind that the next one needs.
    METER.lock().unwrap_or_else(PoisonError::into_inner)
}

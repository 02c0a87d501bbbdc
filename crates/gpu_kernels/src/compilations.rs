//! How many kernels this process has compiled, to show progress in the first step.
//!
//! CubeCL tells it by its log alone, as messages of the level trace.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use log::{LevelFilter, Log, Metadata, Record};

static COMPILED: AtomicU64 = AtomicU64::new(0);

/// The module of cubecl-cuda that compiles, and its message.
#[cfg(feature = "cuda")]
const COMPILER: &str = "cubecl_cuda::compute::context";
#[cfg(feature = "cuda")]
const MESSAGE: &str = "Compiling kernel";

/// The module of cubecl-wgpu that compiles, and the beginning of its message.
#[cfg(not(feature = "cuda"))]
const COMPILER: &str = "cubecl_wgpu::backend::base";
#[cfg(not(feature = "cuda"))]
const MESSAGE: &str = "[cubecl-wgpu] compiling WGSL module";

struct Counter;

impl Log for Counter {
    fn enabled(&self, metadata: &Metadata) -> bool {
        metadata.target() == COMPILER
    }

    fn log(&self, record: &Record) {
        if self.enabled(record.metadata()) && record.args().to_string().starts_with(MESSAGE) {
            COMPILED.fetch_add(1, Relaxed);
        }
    }

    fn flush(&self) {}
}

/// Counts the kernels that are compiled from now on. It takes the place of the program's logger, so only a program may call
/// it, and no library. Where there is a logger already, nothing is counted.
pub fn count_compiled_kernels() {
    if log::set_logger(&Counter).is_ok() {
        log::set_max_level(LevelFilter::Trace);
    }
}

/// The number of kernels that were compiled since [`count_compiled_kernels`] was called.
pub fn compiled_kernels() -> u64 {
    COMPILED.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilations_alone_are_counted() {
        count_compiled_kernels();
        let before = compiled_kernels();
        log::trace!(target: COMPILER, "{MESSAGE}");
        log::trace!(target: COMPILER, "Using PTX cache");
        log::trace!(target: "cubecl_runtime::server", "{MESSAGE}");
        assert_eq!(compiled_kernels() - before, 1);
    }
}

//! Execution: blocks on the processor's threads, warps in turn, lanes in lockstep.

mod access;
mod atomic;
mod barrier;
mod block;
mod collective;
mod compare;
mod convert;
mod float;
mod half;
mod integer;
pub(crate) mod lanes;
mod matrix;
mod memory;
mod movement;
mod phase;
mod registers;
mod shared_matrix;
mod splits;
mod touch;
mod warp;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) use access::Arena;

use crate::error::{ExecError, LaunchFault};
use crate::{Executed, Kernel, Launch};
use access::Fault;
use block::Worker;
use warp::Stop;

/// The most threads of a block on any device.
const BLOCK_LIMIT: u32 = 1024;

impl Kernel {
    /// Runs all blocks of a grid, several at a time on the processor's threads.
    pub fn run(&self, launch: &Launch<'_>) -> Result<Executed, ExecError> {
        self.check(launch).map_err(|reason| ExecError::Launch { kernel: self.name.clone(), reason })?;
        let blocks = launch.grid.iter().map(|&size| u64::from(size)).product::<u64>();
        let shared = Progress { next: AtomicU64::new(0), failed: AtomicBool::new(false) };
        let helpers = (launch.threads.max(1) as u64).min(blocks).saturating_sub(1);
        let work = || self.work(launch, blocks, &shared);
        let mut total = Executed::default();
        let mut first_error = None;
        std::thread::scope(|scope| {
            let helpers: Vec<_> = (0..helpers).map(|_| scope.spawn(work)).collect();
            let mut results = vec![work()];
            for helper in helpers {
                // A panic of a helper is a bug of the interpreter, and goes on here.
                results.push(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            for result in results {
                match result {
                    Ok(executed) => total += executed,
                    Err(error) => first_error = first_error.take().or(Some(error)),
                }
            }
        });
        first_error.map_or(Ok(total), Err)
    }

    /// Runs blocks until there are none left.
    fn work(&self, launch: &Launch<'_>, blocks: u64, progress: &Progress) -> Result<Executed, ExecError> {
        let mut worker = Worker::new(self, launch);
        while !progress.failed.load(Ordering::Relaxed) {
            let block = progress.next.fetch_add(1, Ordering::Relaxed);
            if block >= blocks {
                break;
            }
            worker.run(block).inspect_err(|_| progress.failed.store(true, Ordering::Relaxed))?;
        }
        Ok(worker.executed())
    }

    fn check(&self, launch: &Launch<'_>) -> Result<(), LaunchFault> {
        let (expected, given) = (self.parameters.len(), launch.parameters.len());
        if expected != given {
            return Err(LaunchFault::ParameterCount { expected, given });
        }
        for (index, (&expected, given)) in self.parameters.iter().zip(launch.parameters).enumerate() {
            if expected != given.len() {
                return Err(LaunchFault::ParameterSize { index, expected, given: given.len() });
            }
        }
        let threads = launch.block.iter().map(|&size| u64::from(size)).product::<u64>();
        let limit = self.max_threads.unwrap_or(BLOCK_LIMIT).min(BLOCK_LIMIT);
        if threads == 0 || threads > u64::from(limit) {
            return Err(LaunchFault::BlockSize { threads, limit });
        }
        Ok(())
    }

    /// What stopped a warp, with names.
    fn error(&self, pc: u32, stop: Stop) -> ExecError {
        let (kernel, line) = (self.name.clone(), self.line(pc));
        match stop {
            Stop::Fault(Fault::Illegal { address, bytes }) => {
                ExecError::IllegalAddress { kernel, line, address, bytes }
            }
            Stop::Fault(Fault::Misaligned { address, bytes }) => {
                ExecError::Misaligned { kernel, line, address, bytes }
            }
            Stop::Trap => ExecError::Trap { kernel, line },
            Stop::NotConverged { missing } => ExecError::NotConverged { kernel, line, missing },
            Stop::OutOfRange { value, limit } => ExecError::OutOfRange { kernel, line, value, limit },
        }
    }

    fn line(&self, pc: u32) -> u32 {
        self.code.lines.get(pc as usize).copied().unwrap_or(0)
    }
}

/// What the threads of a launch have in common.
struct Progress {
    next: AtomicU64,
    failed: AtomicBool,
}

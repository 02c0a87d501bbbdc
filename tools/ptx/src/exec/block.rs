//! Blocks: their shared memory and their warps, which run in turn until all have to wait.

use std::time::Instant;

use super::access::{Arena, Windows};
use super::barrier::{self, Arrivals};
use super::lanes::{LANES, Lanes};
use super::registers::Registers;
use super::splits::Splits;
use super::warp::Warp;
use crate::error::ExecError;
use crate::program::Special;
use crate::{Executed, Kernel, Launch};

/// Runs blocks one after another, all in the same memory.
pub(super) struct Worker<'l> {
    kernel: &'l Kernel,
    launch: &'l Launch<'l>,
    warps: Vec<Warp<'l>>,
    /// Kept for the warps, who know their addresses.
    _memory: [Arena; 3],
}

impl<'l> Worker<'l> {
    pub(super) fn new(kernel: &'l Kernel, launch: &'l Launch<'l>) -> Worker<'l> {
        let threads = launch.block.iter().product::<u32>() as usize;
        let warps = threads.div_ceil(LANES);
        let shared_bytes = match launch.dynamic_shared_bytes {
            0 => kernel.static_shared,
            dynamic => kernel.dynamic_shared + dynamic,
        };
        let shared = Arena::new(shared_bytes);
        let local_bytes = kernel.local_bytes.next_multiple_of(16);
        let local = Arena::new(local_bytes * warps * LANES);
        let parameter_bytes = kernel.parameter_offsets.last().map_or(0, |&(offset, bytes)| offset + bytes);
        let mut packed = vec![0u8; parameter_bytes];
        for (&(offset, bytes), given) in kernel.parameter_offsets.iter().zip(launch.parameters) {
            packed[offset..offset + bytes].copy_from_slice(given);
        }
        let mut parameters = Arena::new(parameter_bytes);
        parameters.fill(&packed);
        let window = |arena: &Arena, bytes: usize| (arena.address(), arena.address() + bytes as u64);
        let windows = Windows {
            global: launch.memory,
            module: window(&kernel.data, kernel.data_bytes),
            parameters: window(&parameters, parameter_bytes),
            shared: window(&shared, shared_bytes),
            local: local.address(),
            local_bytes: local_bytes as u64,
            recent: (0, 0),
            sectors: launch.sectors,
        };
        let started = Instant::now();
        let warp = |index: usize| {
            let mut windows = windows.clone();
            windows.local += (index * LANES * local_bytes) as u64;
            let mut warp = Warp {
                code: &kernel.code,
                registers: Registers::new(&kernel.code),
                splits: Splits::default(),
                windows,
                executed: Executed::default(),
                started,
            };
            set_specials(&mut warp, launch, index, shared_bytes);
            warp
        };
        let warps = (0..warps).map(warp).collect();
        Worker { kernel, launch, warps, _memory: [shared, local, parameters] }
    }

    /// What all blocks so far have executed.
    pub(super) fn executed(&self) -> Executed {
        self.warps.iter().fold(Executed::default(), |total, warp| total + warp.executed)
    }

    /// Runs a block, given by its number in the grid.
    pub(super) fn run(&mut self, block: u64) -> Result<(), ExecError> {
        self.start(block);
        let mut arrivals = Arrivals::default();
        loop {
            let mut ran = false;
            for warp in &mut self.warps {
                if warp.splits.runnable() {
                    ran = true;
                    warp.run(&mut arrivals).map_err(|(pc, stop)| self.kernel.error(pc, stop))?;
                }
            }
            if self.warps.iter().all(|warp| warp.splits.live == 0) {
                return Ok(());
            }
            if !barrier::release(&mut self.warps, &mut arrivals) && !ran {
                return Err(self.deadlock(&arrivals));
            }
        }
    }

    fn start(&mut self, block: u64) {
        let [width, height, _] = self.launch.grid.map(u64::from);
        let place = [block % width, block / width % height, block / width / height].map(|at| at as u32);
        let threads = self.launch.block.iter().product::<u32>() as usize;
        for (index, warp) in self.warps.iter_mut().enumerate() {
            let lanes = (threads - index * LANES).min(LANES);
            warp.splits.start(if lanes == LANES { u32::MAX } else { (1 << lanes) - 1 });
            for &(slot, special) in &self.kernel.code.specials {
                if let Special::Block(axis) = special {
                    warp.registers.set_word(slot, &Lanes::all(place[usize::from(axis)]), u32::MAX);
                }
            }
        }
    }

    fn deadlock(&self, arrivals: &Arrivals) -> ExecError {
        let kernel = self.kernel.name.clone();
        let stuck = barrier::waiting(&self.warps, arrivals).into_iter().next();
        let (line, barrier, waiting) =
            stuck.map_or((0, 0, 0), |stuck| (self.kernel.line(stuck.pc), stuck.id, stuck.threads));
        ExecError::BarrierDeadlock { kernel, line, barrier, waiting }
    }
}

/// Fills the slots of special registers that are the same in every block.
fn set_specials(warp: &mut Warp<'_>, launch: &Launch<'_>, index: usize, shared_bytes: usize) {
    let [width, height, _] = launch.block;
    let warps = launch.block.iter().product::<u32>().div_ceil(LANES as u32);
    for &(slot, special) in &warp.code.specials {
        let value = Lanes::by_lane(|lane| {
            let thread = (index * LANES + lane) as u32;
            match special {
                Special::Thread(0) => thread % width,
                Special::Thread(1) => thread / width % height,
                Special::Thread(_) => thread / width / height,
                Special::BlockSize(axis) => launch.block[usize::from(axis)],
                Special::GridSize(axis) => launch.grid[usize::from(axis)],
                // Set when a block starts.
                Special::Block(_) => 0,
                Special::Lane => lane as u32,
                Special::Warp => index as u32,
                Special::WarpCount => warps,
                Special::LaneMaskEqual => 1 << lane,
                Special::LaneMaskLess => (1 << lane) - 1,
                Special::LaneMaskLessEqual => u32::MAX >> (31 - lane),
                Special::LaneMaskGreater => !(u32::MAX >> (31 - lane)),
                Special::LaneMaskGreaterEqual => u32::MAX << lane,
                Special::DynamicSharedBytes => launch.dynamic_shared_bytes as u32,
                Special::TotalSharedBytes => shared_bytes as u32,
            }
        });
        warp.registers.set_word(slot, &value, u32::MAX);
    }
}

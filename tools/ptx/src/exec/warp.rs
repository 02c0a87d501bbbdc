//! A warp: 32 threads in lockstep.

use std::time::Instant;

use super::access::{Fault, Windows};
use super::barrier::{Arrivals, BARRIERS};
use super::lanes::{Lanes, lanes_of};
use super::memory::{self, Machine};
use super::registers::Registers;
use super::splits::{Splits, Wait};
use super::{collective, float, integer, matrix, movement};
use crate::Executed;
use crate::program::{Code, ControlOp, Op, Word};

/// Instructions after which a warp lets others run, which it may be waiting for in a loop.
const SLICE: u64 = 1 << 20;

/// Why a warp stopped for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Fault(Fault),
    Trap,
    NotConverged { missing: u32 },
    OutOfRange { value: u32, limit: u32 },
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(fault)
    }
}

/// What comes after an instruction.
enum Next {
    /// The instruction behind it.
    Following,
    /// Wherever the splits say.
    Moved,
    /// The instruction behind it, once other warps had their turn.
    Yield,
}

/// The state of a warp.
pub(super) struct Warp<'l> {
    pub(super) code: &'l Code,
    pub(super) registers: Registers,
    pub(super) splits: Splits,
    pub(super) windows: Windows<'l>,
    pub(super) executed: Executed,
    pub(super) started: Instant,
}

impl Warp<'_> {
    /// Runs until no lane can go on, or other warps should have a turn. An error comes with its instruction.
    pub(super) fn run(&mut self, arrivals: &mut Arrivals) -> Result<(), (u32, Stop)> {
        let mut executed = 0;
        let result = self.run_slice(arrivals, &mut executed);
        self.executed.warp_instructions += executed;
        result
    }

    fn run_slice(&mut self, arrivals: &mut Arrivals, executed: &mut u64) -> Result<(), (u32, Stop)> {
        let code = self.code;
        while *executed < SLICE {
            if self.splits.pc >= self.splits.meeting && !self.splits.settle() {
                return self.check_parked();
            }
            let pc = self.splits.pc;
            let instruction = &code.instructions[pc as usize];
            let mask = self.registers.condition(instruction.guard) & self.splits.mask;
            *executed += 1;
            if mask == 0 {
                self.splits.pc += 1;
                continue;
            }
            match self.execute(&instruction.op, mask, arrivals).map_err(|stop| (pc, stop))? {
                Next::Following => self.splits.pc += 1,
                Next::Moved => {}
                Next::Yield => {
                    self.splits.pc += 1;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Lanes that wait for others which all wait themselves, or have exited, never go on.
    fn check_parked(&self) -> Result<(), (u32, Stop)> {
        let waiting = self.splits.parked().iter().find(|parked| parked.wait == Wait::Members);
        match waiting {
            Some(parked) => Err((parked.pc, Stop::NotConverged { missing: self.splits.live & !parked.mask })),
            None => Ok(()),
        }
    }

    /// Whether all living members of a warp-wide instruction are here; if not, those that are wait for them.
    fn converged(&mut self, members: Word, mask: u32) -> bool {
        let members = self.registers.word(members);
        let named = lanes_of(mask).fold(0, |named, lane| named | members.0[lane]);
        if named & self.splits.live & !mask == 0 {
            return true;
        }
        self.splits.park_for_members();
        false
    }

    #[inline(always)]
    fn execute(&mut self, op: &Op, mask: u32, arrivals: &mut Arrivals) -> Result<Next, Stop> {
        // Lanes that have exited may be overwritten, which is faster than to leave them alone.
        let blend = if mask == self.splits.live { u32::MAX } else { mask };
        match *op {
            Op::Integer(op) => integer::execute(&mut self.registers, op, blend),
            Op::Float(op) => float::execute(&mut self.registers, op, blend),
            Op::Data(op) => movement::execute(&mut self.registers, self.code, op, blend),
            Op::Memory(op) => {
                let Warp { registers, windows, executed, code, .. } = self;
                let machine = Machine { r: registers, windows, code, executed, mask, blend };
                return Ok(if memory::execute(machine, op)? { Next::Following } else { Next::Yield });
            }
            Op::Exchange(op) => {
                if !self.converged(op.members(), mask) {
                    return Ok(Next::Moved);
                }
                collective::execute(&mut self.registers, op, mask);
            }
            Op::Matrix(op) => {
                // All lanes take part, in instructions that are the same for all of them.
                if self.splits.live & !mask != 0 {
                    self.splits.park_for_members();
                    return Ok(Next::Moved);
                }
                matrix::execute(&mut self.registers, &mut self.windows, self.code, op, mask)?;
            }
            Op::Control(op) => return self.control(op, mask, arrivals),
        }
        Ok(Next::Following)
    }

    #[inline(always)]
    fn control(&mut self, op: ControlOp, mask: u32, arrivals: &mut Arrivals) -> Result<Next, Stop> {
        match op {
            ControlOp::Branch { target } => self.splits.branch(mask, target),
            ControlOp::BranchTable { index, start, len } => self.branch_table(index, start, len, mask)?,
            ControlOp::Exit => self.splits.exit(mask),
            ControlOp::Trap => return Err(Stop::Trap),
            ControlOp::Yield => return Ok(Next::Yield),
            ControlOp::Barrier { id, threads } => {
                let id = self.barrier_number(id, mask)?;
                let threads = threads.map(|threads| self.first(threads, mask));
                self.splits.park_at_barrier(mask, id, threads);
            }
            ControlOp::BarrierArrive { id } => {
                arrivals.arrive(self.barrier_number(id, mask)?, mask.count_ones());
                return Ok(Next::Following);
            }
            ControlOp::Clock { d } => {
                let nanoseconds = self.started.elapsed().as_nanos() as u64;
                self.registers.set_any(d, &Lanes::all(nanoseconds), mask);
                return Ok(Next::Following);
            }
            ControlOp::ActiveMask { d } => {
                self.registers.set_word(d, &Lanes::all(mask), mask);
                return Ok(Next::Following);
            }
        }
        Ok(Next::Moved)
    }

    fn branch_table(&mut self, index: Word, start: u32, len: u32, mask: u32) -> Result<(), Stop> {
        let index = *self.registers.word(index);
        let pc = self.splits.pc;
        let mut left = mask;
        // Lanes with the same target go there together.
        while left != 0 {
            let value = index.0[left.trailing_zeros() as usize];
            if value >= len {
                return Err(Stop::OutOfRange { value, limit: len });
            }
            let same = lanes_of(left).filter(|&l| index.0[l] == value).fold(0, |same, lane| same | 1 << lane);
            self.splits.pc = pc;
            self.splits.branch(same, self.code.targets[(start + value) as usize]);
            left &= !same;
        }
        Ok(())
    }

    fn first(&self, slot: Word, mask: u32) -> u32 {
        self.registers.word(slot).0[mask.trailing_zeros() as usize & 31]
    }

    fn barrier_number(&self, id: Word, mask: u32) -> Result<u32, Stop> {
        let value = self.first(id, mask);
        if value < BARRIERS { Ok(value) } else { Err(Stop::OutOfRange { value, limit: BARRIERS }) }
    }
}

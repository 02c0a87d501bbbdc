//! A warp: 32 threads in lockstep.

use super::access::{Fault, Windows};
use super::atomic;
use super::barrier::{Arrivals, BARRIERS};
use super::collective::{self, Shuffled};
use super::lanes::{Lanes, lanes_of};
use super::matrix::{self, Fragment, Product};
use super::registers::Registers;
use super::shared_matrix::{self, Rows};
use super::splits::{Splits, Wait};
use super::{compare, convert, float, half, integer, memory, movement, phase};
use crate::Executed;
use crate::program::{Code, Matrix, Op, Space, Word};

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
            Some(parked) => {
                Err((parked.pc, Stop::NotConverged { missing: self.splits.live & !parked.mask }))
            }
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

    /// Arithmetic here; all that can stop a lane or move it in [`Warp::execute_other`].
    #[inline(always)]
    fn execute(&mut self, op: &Op, mask: u32, arrivals: &mut Arrivals) -> Result<Next, Stop> {
        let r = &mut self.registers;
        // Lanes that have exited may be overwritten, which is faster than to leave them alone.
        let blend = if mask == self.splits.live { u32::MAX } else { mask };
        match *op {
            Op::Words { op, int, d, a, b } => integer::words(r, op, int, d, a, b, blend),
            Op::Longs { op, signed, d, a, b } => integer::longs(r, op, signed, d, a, b, blend),
            Op::ShiftLong { op, signed, d, a, by } => integer::shift_long(r, op, signed, d, a, by, blend),
            Op::WordUnary { op, int, d, a } => integer::word_unary(r, op, int, d, a, blend),
            Op::LongUnary { op, d, a } => integer::long_unary(r, op, d, a, blend),
            Op::CountWord { op, d, a } => integer::count_word(r, op, d, a, blend),
            Op::CountLong { op, d, a } => integer::count_long(r, op, d, a, blend),
            Op::MadWord { high, int, d, a, b, c } => integer::mad_word(r, high, int, d, a, b, c, blend),
            Op::MadLong { high, signed, d, a, b, c } => integer::mad_long(r, high, signed, d, a, b, c, blend),
            Op::WideWord { signed, d, a, b, c } => integer::wide_word(r, signed, d, a, b, c, blend),
            Op::WideLong { signed, d, a, b, c } => integer::wide_long(r, signed, d, a, b, c, blend),
            Op::CarryWord { subtract, carry_in, carry_out, d, a, b } => {
                integer::carry_word(r, subtract, carry_in, carry_out, d, a, b, blend);
            }
            Op::CarryLong { subtract, carry_in, carry_out, d, a, b } => {
                integer::carry_long(r, subtract, carry_in, carry_out, d, a, b, blend);
            }
            Op::Permute { d, a, b, selector } => integer::permute(r, d, a, b, selector, blend),
            Op::Lop3 { d, a, b, c, table } => integer::lop3(r, d, a, b, c, u32::from(table), blend),
            Op::Funnel { left, wrap, d, low, high, by } => {
                integer::funnel(r, left, wrap, d, low, high, by, blend);
            }
            Op::ExtractWord { signed, d, a, position, length } => {
                integer::extract_word(r, signed, d, a, position, length, blend);
            }
            Op::ExtractLong { signed, d, a, position, length } => {
                integer::extract_long(r, signed, d, a, position, length, blend);
            }
            Op::InsertWord { d, field, a, position, length } => {
                integer::insert_word(r, d, field, a, position, length, blend);
            }
            Op::InsertLong { d, field, a, position, length } => {
                integer::insert_long(r, d, field, a, position, length, blend);
            }
            Op::F32Binary { op, mode, d, a, b } => float::f32_binary(r, op, mode, d, a, b, blend),
            Op::F64Binary { op, mode, d, a, b } => float::f64_binary(r, op, mode, d, a, b, blend),
            Op::F32Unary { op, mode, d, a } => float::f32_unary(r, op, mode, d, a, blend),
            Op::F64Unary { op, d, a, .. } => float::f64_unary(r, op, d, a, blend),
            Op::F32Fma { mode, d, a, b, c } => float::f32_fma(r, mode, d, a, b, c, blend),
            Op::F64Fma { mode, d, a, b, c } => float::f64_fma(r, mode, d, a, b, c, blend),
            Op::HalfBinary { op, kind, pair, mode, d, a, b } => {
                half::half_binary(r, op, kind, pair, mode, d, a, b, blend);
            }
            Op::HalfUnary { op, kind, pair, mode, d, a } => {
                half::half_unary(r, op, kind, pair, mode, d, a, blend);
            }
            Op::HalfFma { kind, pair, mode, d, a, b, c } => {
                half::half_fma(r, kind, pair, mode, d, a, b, c, blend);
            }
            Op::TestF32 { test, d, a } => float::test_f32(r, test, d, a, mask),
            Op::TestF64 { test, d, a } => float::test_f64(r, test, d, a, mask),
            Op::SetPred { comparison, d, not_d, logic, with } => {
                compare::set_pred(r, comparison, (d, not_d), (logic, with), mask);
            }
            Op::Set { comparison, to, d, logic, with } => {
                compare::set(r, comparison, to, d, (logic, with), blend);
            }
            Op::SelectWord { d, a, b, by } => compare::select_word(r, d, a, b, by, blend),
            Op::SelectLong { d, a, b, by } => compare::select_long(r, d, a, b, by, blend),
            Op::PredLogic { op, d, a, b } => compare::pred_logic(r, op, d, a, b, mask),
            Op::MoveWord { d, a } => movement::move_word(r, d, a, blend),
            Op::MoveLong { d, a } => movement::move_long(r, d, a, blend),
            Op::Pack { d, parts } => movement::pack(r, d, self.code.list(parts), blend),
            Op::Unpack { a, parts } => movement::unpack(r, a, self.code.list(parts), blend),
            Op::Convert { conversion, d, a } => convert::convert(r, conversion, d, a, blend),
            Op::ConvertPair { kind, mode, d, a, b } => convert::convert_pair(r, kind, mode, d, a, b, blend),
            Op::ConvertTf32 { away, relu, d, a } => convert::convert_tf32(r, away, relu, d, a, blend),
            Op::Branch { target } => {
                self.splits.branch(mask, target);
                return Ok(Next::Moved);
            }
            Op::Load { .. } | Op::Store { .. } => {
                self.execute_access(op, mask, blend)?;
            }
            _ => return self.execute_other(op, mask, arrivals),
        }
        Ok(Next::Following)
    }

    #[inline(always)]
    fn execute_access(&mut self, op: &Op, mask: u32, blend: u32) -> Result<(), Stop> {
        let lanes = u64::from(mask.count_ones());
        let off_chip = |space| matches!(space, Space::Global | Space::Generic);
        match *op {
            Op::Load { address, bytes, sign, to } => {
                let to = self.code.list(to);
                if off_chip(address.space) {
                    self.executed.global_bytes_read += lanes * u64::from(bytes) * to.len() as u64;
                }
                let (r, windows) = (&mut self.registers, &mut self.windows);
                memory::load(r, windows, address, bytes, sign, to, mask, blend)?;
            }
            Op::Store { address, bytes, from } => {
                let from = self.code.list(from);
                if off_chip(address.space) {
                    self.executed.global_bytes_written += lanes * u64::from(bytes) * from.len() as u64;
                }
                memory::store(&self.registers, &mut self.windows, address, bytes, from, mask)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn execute_other(&mut self, op: &Op, mask: u32, arrivals: &mut Arrivals) -> Result<Next, Stop> {
        match *op {
            Op::BranchTable { index, start, len } => self.branch_table(index, start, len, mask)?,
            Op::Exit => self.splits.exit(mask),
            Op::Trap => return Err(Stop::Trap),
            Op::Yield => return Ok(Next::Yield),
            Op::Barrier { id, threads } => {
                let id = self.barrier_number(id, mask)?;
                let threads = threads.map(|threads| self.first(threads, mask));
                self.splits.park_at_barrier(mask, id, threads);
            }
            Op::BarrierArrive { id } => {
                arrivals.arrive(self.barrier_number(id, mask)?, mask.count_ones());
                return Ok(Next::Following);
            }
            Op::WarpBarrier { members }
            | Op::Shuffle { members, .. }
            | Op::Vote { members, .. }
            | Op::Ballot { members, .. }
            | Op::MatchAny { members, .. }
            | Op::MatchAll { members, .. }
            | Op::Redux { members, .. }
            | Op::Elect { members, .. } => {
                if !self.converged(members, mask) {
                    return Ok(Next::Moved);
                }
                self.exchange(op, mask);
                return Ok(Next::Following);
            }
            Op::ActiveMask { d } => {
                self.registers.set_word(d, &Lanes::all(mask), mask);
                return Ok(Next::Following);
            }
            Op::LoadMatrix { .. }
            | Op::StoreMatrix { .. }
            | Op::Mma { .. }
            | Op::FragmentLoad { .. }
            | Op::FragmentStore { .. }
            | Op::FragmentMma { .. } => {
                // All lanes take part, in instructions that are the same for all of them.
                if self.splits.live & !mask != 0 {
                    self.splits.park_for_members();
                    return Ok(Next::Moved);
                }
                self.matrix(op, mask)?;
                return Ok(Next::Following);
            }
            _ => return self.memory_barrier_or_copy(op, mask),
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

    fn exchange(&mut self, op: &Op, mask: u32) {
        let r = &mut self.registers;
        match *op {
            Op::Shuffle { mode, d, in_range, a, b, clamp, .. } => {
                collective::shuffle(r, &Shuffled { mode, d, in_range, a, b, clamp }, mask);
            }
            Op::Vote { vote, d, a, .. } => collective::vote(r, vote, d, a, mask),
            Op::Ballot { d, a, .. } => collective::ballot(r, d, a, mask),
            Op::MatchAny { d, a, .. } => collective::match_any(r, d, a, mask),
            Op::MatchAll { d, all, a, .. } => collective::match_all(r, d, all, a, mask),
            Op::Redux { op, d, a, .. } => collective::redux(r, op, d, a, mask),
            Op::Elect { d, elected, .. } => collective::elect(r, d, elected, mask),
            // `bar.warp.sync` only waits.
            _ => {}
        }
    }

    fn matrix(&mut self, op: &Op, mask: u32) -> Result<(), Stop> {
        let (code, r, windows) = (self.code, &mut self.registers, &mut self.windows);
        match *op {
            Op::LoadMatrix { address, transpose, to } => {
                shared_matrix::load(r, windows, &Rows { address, transpose }, code.list(to), mask)?;
            }
            Op::StoreMatrix { address, transpose, from } => {
                shared_matrix::store(r, windows, &Rows { address, transpose }, code.list(from), mask)?;
            }
            Op::Mma { shape, ab, c, d, registers } => {
                let registers = code.list(registers);
                matrix::product(r, &Product { shape, ab, c, d, registers, opaque: false }, mask);
            }
            Op::FragmentMma { shape, ab, c, d, registers } => {
                let registers = code.list(registers);
                matrix::product(r, &Product { shape, ab, c, d, registers, opaque: true }, mask);
            }
            Op::FragmentLoad { shape, matrix, element, column_major, address, stride, to } => {
                let registers = code.list(to);
                let fragment = Fragment { shape, matrix, element, column_major, address, stride, registers };
                matrix::load_fragment(r, windows, &fragment, mask)?;
            }
            Op::FragmentStore { shape, element, column_major, address, stride, from } => {
                let (registers, matrix) = (code.list(from), Matrix::Accumulator);
                let fragment = Fragment { shape, matrix, element, column_major, address, stride, registers };
                matrix::store_fragment(r, windows, &fragment, mask)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn memory_barrier_or_copy(&mut self, op: &Op, mask: u32) -> Result<Next, Stop> {
        let (r, windows) = (&mut self.registers, &mut self.windows);
        let over = match *op {
            Op::Atomic { op, ty, d, address, b, c } => {
                let operands = atomic::Operands { op, ty, d, address, b, c };
                let bytes = (atomic::update(r, windows, &operands, mask)? as u64) * u64::from(mask.count_ones());
                if address.space != Space::Shared {
                    self.executed.global_bytes_read += bytes;
                    self.executed.global_bytes_written += bytes;
                }
                true
            }
            Op::CopyAsync { to, from, bytes, length } => {
                let read = memory::copy(r, windows, (to, from), usize::from(bytes), length, mask)?;
                self.executed.global_bytes_read += read;
                true
            }
            Op::ToGeneric { space, d, a } => {
                movement::offset(r, d, a, &memory::bases(windows, space), mask);
                true
            }
            Op::FromGeneric { space, d, a } => {
                let bases = memory::bases(windows, space);
                let back = Lanes::by_lane(|lane| bases.0[lane].wrapping_neg());
                movement::offset(r, d, a, &back, mask);
                true
            }
            Op::IsSpace { space, d, a } => {
                let a = r.long(a).0;
                let inside = lanes_of(mask).filter(|&lane| windows.space_of(lane, a[lane]) == space);
                let inside = inside.fold(0, |inside, lane| inside | 1 << lane);
                r.set_pred(d, inside, mask);
                true
            }
            Op::PhaseInit { address, count } => {
                phase::init(r, windows, address, count, mask)?;
                true
            }
            Op::PhaseArrive { d, address, count } => {
                phase::arrive(r, windows, (d, address), count, mask)?;
                true
            }
            Op::PhaseTest { d, address, token } => phase::test(r, windows, (d, address), token, mask)?,
            Op::PhaseTestParity { d, address, parity } => {
                phase::test_parity(r, windows, (d, address), parity, mask)?
            }
            _ => true,
        };
        Ok(if over { Next::Following } else { Next::Yield })
    }
}

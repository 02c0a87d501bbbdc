//! Registers to slots: values that are never live at once share one, so that a warp's registers stay in the cache.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::liveness::{LiveRange, live_ranges};
use crate::error::PtxError;
use crate::parse::syntax::{Class, Function};
use crate::program::{Long, Pred, Word};

/// The slot of every register, and the first free slot of each class.
pub(super) struct Allocation {
    /// None where no statement names the register.
    pub(super) slots: Vec<Option<u16>>,
    pub(super) words: usize,
    pub(super) longs: usize,
    pub(super) preds: usize,
}

pub(super) fn allocate(function: &Function<'_>) -> Result<Allocation, PtxError> {
    let mut order: Vec<(LiveRange, usize)> = live_ranges(function)
        .into_iter()
        .enumerate()
        .filter_map(|(register, range)| range.map(|range| (range, register)))
        .collect();
    order.sort_unstable_by_key(|(range, register)| (range.start, *register));
    let mut slots = vec![None; function.registers.len()];
    let mut files = [
        File::starting_at(usize::from(Word::SINK.0) + 1),
        File::starting_at(usize::from(Long::SINK.0) + 1),
        File::starting_at(usize::from(Pred::SINK.0) + 1),
    ];
    for (range, register) in order {
        let file = match function.registers[register].class {
            Class::Word => &mut files[0],
            Class::Long => &mut files[1],
            Class::Predicate => &mut files[2],
        };
        let slot = file.take(range);
        slots[register] = Some(
            u16::try_from(slot)
                .map_err(|_| PtxError::TooManyRegisters { kernel: function.name.to_owned() })?,
        );
    }
    let [words, longs, preds] = files.map(|file| file.end);
    Ok(Allocation { slots, words, longs, preds })
}

/// The slots of one class.
struct File {
    end: usize,
    free: Vec<usize>,
    /// Slots in use, by the end of their value.
    busy: BinaryHeap<Reverse<(usize, usize)>>,
}

impl File {
    fn starting_at(end: usize) -> File {
        File { end, free: Vec::new(), busy: BinaryHeap::new() }
    }

    fn take(&mut self, range: LiveRange) -> usize {
        while let Some(&Reverse((end, slot))) = self.busy.peek() {
            if end >= range.start {
                break;
            }
            self.busy.pop();
            self.free.push(slot);
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        });
        self.busy.push(Reverse((range.end, slot)));
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;

    #[test]
    fn a_result_may_take_the_slot_of_an_operand_that_ends_there() {
        let text = ".visible .entry k() { .reg .b32 %r<4>;
            mov.u32 %r0, 1; mov.u32 %r1, 2; add.u32 %r2, %r0, %r1; add.u32 %r3, %r2, 1; ret; }";
        let source = parse(text).unwrap();
        let allocation = allocate(&source.functions[0]).unwrap();
        assert_eq!(allocation.words, 3, "two slots besides the sink");
        assert_ne!(allocation.slots[0], allocation.slots[1]);
    }

    #[test]
    fn two_results_of_one_instruction_never_share_a_slot() {
        let text = ".visible .entry k() { .reg .b32 %r<3>; mov.b32 {%r1, %r2}, %r0; ret; }";
        let source = parse(text).unwrap();
        let allocation = allocate(&source.functions[0]).unwrap();
        assert_ne!(allocation.slots[1], allocation.slots[2]);
    }
}

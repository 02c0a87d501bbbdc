//! The registers of a warp.

use super::lanes::{LANES, Lanes};
use crate::program::{Code, Condition, Long, Pred, Slot, Word};

/// All slots of a warp.
pub(crate) struct Registers {
    words: Vec<Lanes<u32>>,
    longs: Vec<Lanes<u64>>,
    preds: Vec<u32>,
    /// The carry flag of `add.cc` and its like.
    pub(crate) carry: u32,
}

impl Registers {
    /// Registers of zeros, with the kernel's constants in their slots.
    pub(crate) fn new(code: &Code) -> Registers {
        let mut registers = Registers {
            words: vec![Lanes::all(0); code.words],
            longs: vec![Lanes::all(0); code.longs],
            preds: vec![0; code.preds],
            carry: 0,
        };
        registers.preds[usize::from(Pred::TRUE.0)] = u32::MAX;
        for &(slot, bits) in &code.word_constants {
            registers.words[usize::from(slot.0)] = Lanes::all(bits);
        }
        for &(slot, bits) in &code.long_constants {
            registers.longs[usize::from(slot.0)] = Lanes::all(bits);
        }
        registers
    }

    #[inline(always)]
    pub(crate) fn word(&self, slot: Word) -> &Lanes<u32> {
        &self.words[usize::from(slot.0)]
    }

    #[inline(always)]
    pub(crate) fn long(&self, slot: Long) -> &Lanes<u64> {
        &self.longs[usize::from(slot.0)]
    }

    #[inline(always)]
    pub(crate) fn pred(&self, slot: Pred) -> u32 {
        self.preds[usize::from(slot.0)]
    }

    /// The lanes where a condition is true.
    #[inline(always)]
    pub(crate) fn condition(&self, condition: Condition) -> u32 {
        self.pred(condition.pred) ^ condition.flip
    }

    /// Any slot as 64 bits a lane.
    #[inline(always)]
    pub(crate) fn any(&self, slot: Slot) -> Lanes<u64> {
        match slot {
            Slot::Long(slot) => *self.long(slot),
            Slot::Word(slot) => {
                let word = self.word(slot);
                Lanes::by_lane(|lane| u64::from(word.0[lane]))
            }
        }
    }

    /// Writes the lanes of a mask.
    #[inline(always)]
    pub(crate) fn set_word(&mut self, slot: Word, value: &Lanes<u32>, mask: u32) {
        let to = &mut self.words[usize::from(slot.0)];
        if mask == u32::MAX {
            *to = *value;
            return;
        }
        for lane in 0..LANES {
            to.0[lane] = if mask >> lane & 1 == 1 { value.0[lane] } else { to.0[lane] };
        }
    }

    /// Writes the lanes of a mask.
    #[inline(always)]
    pub(crate) fn set_long(&mut self, slot: Long, value: &Lanes<u64>, mask: u32) {
        let to = &mut self.longs[usize::from(slot.0)];
        if mask == u32::MAX {
            *to = *value;
            return;
        }
        for lane in 0..LANES {
            to.0[lane] = if mask >> lane & 1 == 1 { value.0[lane] } else { to.0[lane] };
        }
    }

    /// Writes the lanes of a mask, of 64 bits those that the slot has.
    #[inline(always)]
    pub(crate) fn set_any(&mut self, slot: Slot, value: &Lanes<u64>, mask: u32) {
        match slot {
            Slot::Long(slot) => self.set_long(slot, value, mask),
            Slot::Word(slot) => {
                let low = Lanes::by_lane(|lane| value.0[lane] as u32);
                self.set_word(slot, &low, mask);
            }
        }
    }

    /// Writes the lanes of a mask.
    #[inline(always)]
    pub(crate) fn set_pred(&mut self, slot: Pred, value: u32, mask: u32) {
        let to = &mut self.preds[usize::from(slot.0)];
        *to = *to & !mask | value & mask;
    }
}

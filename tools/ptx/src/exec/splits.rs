//! Divergence: a warp is a set of splits, lanes that are at the same instruction.
//!
//! The split at the lowest instruction runs until it meets the next one, where both become one. Compilers lay out code so
//! that the place where branches meet is behind both of them, which lanes therefore reach together.

/// An instruction that is none.
const NOWHERE: u32 = u32::MAX;

/// Lanes that run together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Split {
    pc: u32,
    mask: u32,
}

/// What lanes wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// For other lanes of the warp to reach the same instruction.
    Members,
    /// At a barrier of the block, for so many threads, or for all.
    Barrier { id: u32, threads: Option<u32> },
}

/// Lanes that wait, and where they go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parked {
    pub(super) pc: u32,
    pub(super) mask: u32,
    pub(super) wait: Wait,
}

/// All lanes of a warp that have not exited.
#[derive(Debug, Default)]
pub(super) struct Splits {
    /// The instruction of the lanes that run.
    pub(super) pc: u32,
    /// The lanes that run.
    pub(super) mask: u32,
    /// Where the running lanes meet others, or must let them run.
    pub(super) meeting: u32,
    /// All that have not exited.
    pub(super) live: u32,
    /// Splits that could run, the lowest last.
    others: Vec<Split>,
    parked: Vec<Parked>,
}

impl Splits {
    /// Puts lanes at the first instruction.
    pub(super) fn start(&mut self, mask: u32) {
        self.others.clear();
        self.parked.clear();
        (self.pc, self.mask, self.meeting, self.live) = (0, mask, NOWHERE, mask);
    }

    /// Lets the lowest split run, merged with those that are where it is; false where none can run.
    pub(super) fn settle(&mut self) -> bool {
        if self.mask != 0 {
            self.insert(Split { pc: self.pc, mask: self.mask });
        }
        match self.others.pop() {
            Some(split) => {
                (self.pc, self.mask) = (split.pc, split.mask);
                self.meeting = self.others.last().map_or(NOWHERE, |split| split.pc);
                true
            }
            None => {
                (self.pc, self.mask, self.meeting) = (NOWHERE, 0, NOWHERE);
                false
            }
        }
    }

    fn insert(&mut self, split: Split) {
        let at = self.others.partition_point(|other| other.pc > split.pc);
        match self.others.get_mut(at) {
            Some(other) if other.pc == split.pc => other.mask |= split.mask,
            _ => self.others.insert(at, split),
        }
    }

    /// Sends some of the running lanes to an instruction, the others to the next one.
    #[inline(always)]
    pub(super) fn branch(&mut self, taken: u32, target: u32) {
        if taken == self.mask {
            self.pc = target;
            return;
        }
        self.pc += 1;
        if taken != 0 {
            self.mask &= !taken;
            self.insert(Split { pc: target, mask: taken });
            self.meeting = self.others.last().map_or(NOWHERE, |split| split.pc);
        }
    }

    /// Ends lanes.
    pub(super) fn exit(&mut self, mask: u32) {
        self.live &= !mask;
        self.leave(mask);
    }

    /// Takes running lanes away; the rest go on behind the instruction.
    fn leave(&mut self, mask: u32) {
        self.mask &= !mask;
        self.pc = if self.mask == 0 { NOWHERE } else { self.pc + 1 };
    }

    /// Makes lanes wait at a barrier.
    pub(super) fn park_at_barrier(&mut self, mask: u32, id: u32, threads: Option<u32>) {
        self.parked.push(Parked { pc: self.pc + 1, mask, wait: Wait::Barrier { id, threads } });
        self.leave(mask);
    }

    /// Makes the running lanes wait for others of the warp, at this instruction; those that waited here come along.
    /// True where there were some, and the instruction is to be tried again.
    pub(super) fn park_for_members(&mut self) -> bool {
        let (pc, mut joined) = (self.pc, 0);
        self.parked.retain(|parked| {
            let here = parked.pc == pc && parked.wait == Wait::Members;
            joined |= if here { parked.mask } else { 0 };
            !here
        });
        if joined != 0 {
            self.mask |= joined;
            return true;
        }
        self.parked.push(Parked { pc, mask: self.mask, wait: Wait::Members });
        (self.pc, self.mask) = (NOWHERE, 0);
        false
    }

    /// The lanes that wait.
    pub(super) fn parked(&self) -> &[Parked] {
        &self.parked
    }

    /// Whether some lanes could run.
    pub(super) fn runnable(&self) -> bool {
        self.mask != 0 || !self.others.is_empty()
    }

    /// Lets the lanes that wait at a barrier go on.
    pub(super) fn release(&mut self, barrier: u32) {
        let mut at = 0;
        while let Some(&parked) = self.parked.get(at) {
            if matches!(parked.wait, Wait::Barrier { id, .. } if id == barrier) {
                self.parked.swap_remove(at);
                self.insert(Split { pc: parked.pc, mask: parked.mask });
            } else {
                at += 1;
            }
        }
        // What ran before may now have to wait for lower ones.
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started() -> Splits {
        let mut splits = Splits::default();
        splits.start(0xff);
        splits
    }

    #[test]
    fn the_lowest_split_runs_and_meets_the_others() {
        let mut splits = started();
        splits.branch(0x0f, 10);
        assert_eq!((splits.pc, splits.mask, splits.meeting), (1, 0xf0, 10));
        splits.pc = 10;
        assert!(splits.settle());
        assert_eq!((splits.pc, splits.mask, splits.meeting), (10, 0xff, NOWHERE));
    }

    #[test]
    fn a_branch_back_runs_at_once_when_it_is_lower() {
        let mut splits = started();
        splits.pc = 5;
        splits.branch(0x0f, 2);
        assert!(splits.pc >= splits.meeting, "the loop asks to settle");
        assert!(splits.settle());
        assert_eq!((splits.pc, splits.mask, splits.meeting), (2, 0x0f, 6));
    }

    #[test]
    fn lanes_that_wait_for_members_are_joined_at_their_instruction() {
        let mut splits = started();
        splits.branch(0x0f, 10);
        splits.pc = 3;
        assert!(!splits.park_for_members());
        assert!(splits.settle());
        assert_eq!((splits.pc, splits.mask), (10, 0x0f));
        splits.pc = 3;
        assert!(splits.park_for_members());
        assert_eq!(splits.mask, 0xff);
        assert!(splits.parked().is_empty());
    }

    #[test]
    fn released_lanes_go_on_behind_their_barrier() {
        let mut splits = started();
        splits.pc = 7;
        splits.park_at_barrier(0xff, 0, None);
        assert!(!splits.settle());
        splits.release(1);
        assert!(!splits.runnable());
        splits.release(0);
        assert_eq!((splits.pc, splits.mask), (8, 0xff));
    }

    #[test]
    fn exited_lanes_are_gone() {
        let mut splits = started();
        splits.exit(0x0f);
        assert_eq!((splits.pc, splits.mask, splits.live), (1, 0xf0, 0xf0));
        splits.exit(0xf0);
        assert!(!splits.settle());
        assert_eq!(splits.live, 0);
    }
}

//! The barriers of a block.

use super::splits::Wait;
use super::warp::Warp;

/// Barriers that a block has.
pub(super) const BARRIERS: u32 = 16;

/// Threads that have arrived at barriers without waiting there.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Arrivals {
    arrived: [u32; BARRIERS as usize],
}

impl Arrivals {
    /// `bar.arrive`
    pub(super) fn arrive(&mut self, id: u32, arriving: u32) {
        self.arrived[id as usize] += arriving;
    }
}

/// Threads at a barrier, and how many it takes.
pub(super) struct Waiting {
    pub(super) id: u32,
    /// The instruction of some of them.
    pub(super) pc: u32,
    pub(super) threads: u32,
    expected: u32,
}

/// The barriers at which threads wait.
pub(super) fn waiting(warps: &[Warp<'_>], arrivals: &Arrivals) -> Vec<Waiting> {
    let live: u32 = warps.iter().map(|warp| warp.splits.live.count_ones()).sum();
    let mut barriers: Vec<Waiting> = Vec::new();
    for warp in warps {
        for parked in warp.splits.parked() {
            let Wait::Barrier { id, threads } = parked.wait else { continue };
            // Counts are of whole warps: lanes that a warp does not have, or no more, count with it.
            let here = match threads {
                Some(_) if parked.mask == warp.splits.live => 32,
                _ => parked.mask.count_ones(),
            };
            let expected = threads.unwrap_or(live);
            match barriers.iter_mut().find(|barrier| barrier.id == id) {
                Some(barrier) => barrier.threads += here,
                None => {
                    let arrived = arrivals.arrived[id as usize];
                    barriers.push(Waiting { id, pc: parked.pc - 1, threads: arrived + here, expected });
                }
            }
        }
    }
    barriers
}

/// Lets threads go on from barriers that are complete; whether there was one.
pub(super) fn release(warps: &mut [Warp<'_>], arrivals: &mut Arrivals) -> bool {
    let mut any = false;
    for barrier in waiting(warps, arrivals) {
        if barrier.threads >= barrier.expected {
            arrivals.arrived[barrier.id as usize] = 0;
            warps.iter_mut().for_each(|warp| warp.splits.release(barrier.id));
            any = true;
        }
    }
    any
}

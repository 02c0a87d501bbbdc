use std::{cmp::Reverse, collections::HashMap};

use oomph_core::{Bytes, ExecutionPoint, Phase};

use crate::record::{Change, Recording};

/// Blocks that every step leaves behind, of one size and execution point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrownKind {
    /// Blocks per step.
    pub count: u64,
    /// Bytes of each.
    pub bytes: Bytes,
    /// The phase they are allocated in.
    pub phase: Phase,
    /// The stage, layer or user scope they are allocated in.
    pub scope: String,
}

impl GrownKind {
    /// Their bytes together.
    pub fn bytes_per_step(&self) -> Bytes {
        Bytes::new(self.count * self.bytes.get())
    }
}

/// Finds the blocks that the steps between `marks` left behind: the phase with most bytes first, and the largest first in
/// it. A mark is the number of the first event after a step.
///
/// A block counts if it outlives the step after its own: parameters, too, are new after every step and freed after the
/// next.
pub(super) fn grown_kinds(recording: &Recording, marks: &[u64]) -> Vec<GrownKind> {
    let mut marks: Vec<u64> = marks.iter().copied().filter(|mark| *mark >= recording.first_event).collect();
    // Steps before the recording have no events.
    marks.dedup();
    let (Some(&end), Some(steps)) = (marks.last(), marks.len().checked_sub(2).filter(|steps| *steps > 0))
    else {
        return Vec::new();
    };
    let mut alive: HashMap<u64, (usize, u64, ExecutionPoint)> = HashMap::new();
    for event in recording.events.iter().take_while(|event| event.number < end) {
        // The step that starts at the last mark before it.
        let step = marks.partition_point(|mark| *mark <= event.number);
        match event.change {
            Change::Alloc { address, bytes } if (1..=steps).contains(&step) => {
                alive.insert(address, (step, bytes, event.point));
            }
            Change::Alloc { address, .. } | Change::Free { address, .. } => _ = alive.remove(&address),
            Change::Step { .. } => {}
        }
    }
    // By size and execution point: the number of blocks, and their steps.
    let mut kinds: HashMap<(u64, ExecutionPoint), (usize, Vec<bool>)> = HashMap::new();
    for (step, bytes, point) in alive.into_values() {
        let (count, seen) = kinds.entry((bytes, point)).or_insert_with(|| (0, vec![false; steps]));
        *count += 1;
        seen[step - 1] = true;
    }
    // Blocks that most steps leave behind; a cache is filled by one step.
    kinds.retain(|_, (_, seen)| 2 * seen.iter().filter(|seen| **seen).count() > steps);
    let kind = |((bytes, point), (count, _)): ((u64, ExecutionPoint), (usize, Vec<bool>))| GrownKind {
        count: count.div_ceil(steps) as u64,
        bytes: Bytes::new(bytes),
        phase: point.phase(),
        scope: point.scope(),
    };
    let mut kinds: Vec<GrownKind> = kinds.into_iter().map(kind).collect();
    let of_phases = Phase::ALL.map(|phase| {
        let kinds = kinds.iter().filter(|kind| kind.phase == phase);
        kinds.map(|kind| kind.bytes_per_step().get()).sum::<u64>()
    });
    kinds.sort_by_cached_key(|kind| {
        let of_phase = (Reverse(of_phases[kind.phase as usize]), kind.phase);
        (of_phase, Reverse(kind.bytes_per_step()), kind.scope.clone(), kind.bytes)
    });
    kinds
}

#[cfg(test)]
mod tests {
    use oomph_core::{current_point, phase, scope};

    use super::*;
    use crate::record::Event;

    fn event(change: Change, point: ExecutionPoint) -> Event {
        Event { change, nanoseconds: 0, number: 0, point }
    }

    fn forward() -> ExecutionPoint {
        let _phase = phase(Phase::Forward);
        let _scope = scope("layer1");
        current_point()
    }

    /// Steps that each make parameters anew, use a workspace, and keep two blocks; one fills a cache.
    fn steps(count: u64) -> (Recording, Vec<u64>) {
        let (idle, forward) = (ExecutionPoint::default(), forward());
        let mut events = Vec::new();
        let mut marks = vec![100];
        for step in 0..count {
            let mut alloc =
                |address, bytes, point| events.push(event(Change::Alloc { address, bytes }, point));
            alloc(1 << 20 | step, 500, idle);
            alloc(7, 9999, forward);
            alloc(2 << 20 | step, 64, forward);
            alloc(3 << 20 | step, 64, forward);
            if step == 1 {
                alloc(9, 123, forward);
            }
            events.push(event(Change::Free { address: 7, bytes: 9999 }, forward));
            if let Some(before) = step.checked_sub(1) {
                events.push(event(Change::Free { address: 1 << 20 | before, bytes: 500 }, idle));
            }
            marks.push(100 + events.len() as u64);
        }
        (100..).zip(&mut events).for_each(|(number, event)| event.number = number);
        (Recording { events, first_event: 100, ..Recording::default() }, marks)
    }

    #[test]
    fn what_every_step_leaves_behind_is_found() {
        let (recording, marks) = steps(5);
        let kept =
            GrownKind { count: 2, bytes: Bytes::new(64), phase: Phase::Forward, scope: "layer1".into() };
        assert_eq!(grown_kinds(&recording, &marks), [kept]);
    }

    #[test]
    fn the_phase_that_leaves_most_comes_first() {
        let (recording, marks) = steps(5);
        let mut events = recording.events;
        for event in &mut events {
            // One large block of idle, and two of forward with more bytes together.
            if let Change::Alloc { address, bytes } = &mut event.change
                && *address >> 20 == 1
            {
                *bytes = 100;
                *address |= 7 << 40;
            }
        }
        let kinds = grown_kinds(&Recording { events, ..recording }, &marks);
        let found: Vec<(Phase, u64)> = kinds.iter().map(|kind| (kind.phase, kind.bytes.get())).collect();
        assert_eq!(found, [(Phase::Forward, 64), (Phase::Idle, 100)]);
    }

    #[test]
    fn steps_that_the_recording_lost_do_not_count() {
        let (mut recording, mut marks) = steps(5);
        let lost = (marks[2] - 99) as usize;
        recording.events.drain(..lost);
        recording.first_event += lost as u64;
        assert_eq!(grown_kinds(&recording, &marks)[0].count, 2);
        marks.insert(2, marks[2]);
        assert_eq!(grown_kinds(&recording, &marks)[0].count, 2);
        marks.truncate(5);
        assert_eq!(grown_kinds(&recording, &marks), []);
        assert_eq!(grown_kinds(&Recording::default(), &[]), []);
    }
}

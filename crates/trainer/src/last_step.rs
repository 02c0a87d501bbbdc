use oomph_core::Bytes;
use oomph_memory::{
    Account, Category, Split, charge,
    record::{self, Note, Notes},
};

use crate::{Optimizer, Stepper, held::Held};

/// Finds out what was in use at the highest moment of the last optimizer step, and for what.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastStep {
    /// The event that marks the step.
    first_event: u64,
    /// That of the step before, whose end says where the tensors lie that the last one finds.
    before: u64,
    /// Whether the step found a state of the optimizer.
    has_state: bool,
    /// What the optimizer keeps, once that was counted: it does not change any more.
    state_bytes: Option<Bytes>,
}

impl LastStep {
    /// To be called before a step is marked.
    pub(crate) fn begins(&mut self, optimizer: &Optimizer) {
        self.has_state = optimizer.has_state();
        self.before = self.first_event;
        self.first_event = record::next_event();
    }

    /// `None` where the recording does not have the whole of the step any more.
    pub(crate) fn peak(&mut self, held: &Held, notes: &Notes, stepper: &Stepper) -> Option<Split> {
        charge(Account::Host, || {
            let recording = record::dump_since(self.first_event);
            if recording.first_event != self.first_event || recording.events.is_empty() {
                return None;
            }
            let sized = |note: Note| if note.next_event < self.first_event { note } else { sized(note) };
            let held = held.notes_since(recording.device, self.before).into_iter().map(sized).collect();
            let timeline = recording.timeline(&Notes { held, ..notes.clone() });
            let mut split = timeline.peak().categories;
            if self.has_state {
                // No event of this step tells of what the optimizer made in an earlier one and changes in place.
                let unseen = self.state_bytes(stepper).saturating_sub(split.of(Category::OptimizerState));
                let moved = unseen.get().min(split[Category::Other]);
                split[Category::Other] -= moved;
                split[Category::OptimizerState] += moved;
            }
            Some(split)
        })
    }

    fn state_bytes(&mut self, stepper: &Stepper) -> Bytes {
        *self.state_bytes.get_or_insert_with(|| stepper.state_bytes_here())
    }
}

/// With what the tensor takes: no event of the step tells of a parameter that is changed in place.
fn sized(note: Note) -> Note {
    /// What the CPU's storage is rounded up to.
    const ALIGNMENT: u64 = 16;
    if note.category != Category::Parameters {
        return note;
    }
    let elements = note.shape.iter().product::<usize>() as u64;
    let bytes = (elements * size_of::<f32>() as u64).next_multiple_of(ALIGNMENT);
    Note { bytes: Some(Bytes::new(bytes)), ..note }
}

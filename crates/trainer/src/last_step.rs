use oomph_core::Bytes;
use oomph_memory::{
    Account, charge,
    record::{self, Note, Notes},
};
use oomph_timeline::{Category, Split};

use oomph_engine::{optimizer::Optimizer, step::Stepper};

use crate::tensor_log::TensorLog;

/// Finds the bytes in use at the peak of the last optimizer step, by category.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastStep {
    /// The event that marks the step.
    first_event: u64,
    /// The mark of the step before. Its notes have the addresses of tensors that the last step finds.
    before: u64,
    /// Whether the step found optimizer state.
    has_state: bool,
    /// Bytes of optimizer state, once counted. They do not change.
    state_bytes: Option<Bytes>,
}

impl LastStep {
    /// Call it before a step is marked.
    pub(crate) fn begins(&mut self, optimizer: &Optimizer) {
        self.has_state = optimizer.has_state();
        self.before = self.first_event;
        self.first_event = record::next_event();
    }

    /// `None` where the recording has lost a part of the step.
    pub(crate) fn peak(&mut self, log: &TensorLog, notes: &Notes, stepper: &Stepper) -> Option<Split> {
        charge(Account::Host, || {
            let recording = record::dump_since(self.first_event);
            if recording.first_event != self.first_event || recording.events.is_empty() {
                return None;
            }
            let sized = |note: Note| if note.next_event < self.first_event { note } else { sized(note) };
            let held = log.notes_since(recording.device, self.before).into_iter().map(sized).collect();
            let timeline = recording.timeline(&Notes { tensors: held, ..notes.clone() });
            let mut split = timeline.peak().categories;
            if self.has_state {
                // State from an earlier step changes in place, so this step has no event of it.
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

/// Adds the size of a parameter: parameters change in place, so the step has no event of them.
fn sized(note: Note) -> Note {
    /// CPU storage is rounded up to multiples of this.
    const ALIGNMENT: u64 = 16;
    if note.category != Category::Parameters {
        return note;
    }
    let elements = note.shape.iter().product::<usize>() as u64;
    let bytes = (elements * size_of::<f32>() as u64).next_multiple_of(ALIGNMENT);
    Note { bytes: Some(Bytes::new(bytes)), ..note }
}

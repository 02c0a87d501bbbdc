use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oomph_core::current_device;
use oomph_memory::{
    Account, Category, charge,
    record::{self, Note},
};
use oomph_model::{AnyTensor, Storage};

use crate::Watch;

/// Notes where tensors lie while allocations are recorded, each on the device that the noting thread works for. Clones
/// note into the same list, so that those of several devices come together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held(Arc<Mutex<Vec<(usize, Note)>>>);

/// Notes that are kept before it is looked which of them the recording still covers.
const MANY: usize = 10_000;

impl Held {
    /// What was noted of a device.
    pub(crate) fn notes_of(&self, device: usize) -> Vec<Note> {
        self.notes_since(device, 0)
    }

    /// Those made at event `first` and later.
    pub(crate) fn notes_since(&self, device: usize, first: u64) -> Vec<Note> {
        charge(Account::Host, || {
            let notes = self.notes();
            let is_its = |note: &&(usize, Note)| note.0 == device && note.1.next_event >= first;
            notes.iter().filter(is_its).map(|(_, note)| note.clone()).collect()
        })
    }

    fn notes(&self) -> MutexGuard<'_, Vec<(usize, Note)>> {
        // A panic leaves whole notes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of the notes of events that are lost; those of parameters are made again with every step.
    fn forget_lost(notes: &mut Vec<(usize, Note)>) {
        let oldest = record::oldest_event();
        notes.retain(|(_, note)| note.next_event >= oldest);
    }
}

impl Watch for Held {
    fn holds(&mut self, category: Category, name: &str, tensor: &AnyTensor) {
        charge(Account::Host, || {
            let Storage::Address(address) = Storage::of(tensor) else { return };
            let mut notes = self.notes();
            if notes.len() == notes.capacity() && notes.len() >= MANY {
                Self::forget_lost(&mut notes);
            }
            let note = Note {
                next_event: record::next_event(),
                address,
                bytes: None,
                category,
                tensor: name.to_owned(),
                shape: tensor.dims(),
                dtype: "f32".to_owned(),
            };
            notes.push((current_device(), note));
        });
    }
}

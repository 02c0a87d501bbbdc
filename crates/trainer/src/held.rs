use std::{cell::RefCell, rc::Rc};

use oomph_memory::{
    Account, Category, charge,
    record::{self, Note},
};
use oomph_model::{AnyTensor, Storage};

use crate::Watch;

/// Notes where tensors lie while allocations are recorded. Clones note into the same list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held(Rc<RefCell<Vec<Note>>>);

/// Notes that are kept before it is looked which of them the recording still covers.
const MANY: usize = 10_000;

impl Held {
    /// What was noted.
    pub(crate) fn notes(&self) -> Vec<Note> {
        charge(Account::Host, || self.0.borrow().clone())
    }

    /// Those made at event `first` and later.
    pub(crate) fn notes_since(&self, first: u64) -> Vec<Note> {
        let notes = self.0.borrow();
        let before = notes.partition_point(|note| note.next_event < first);
        notes[before..].to_vec()
    }

    /// Lets go of the notes of events that are lost; those of parameters are made again with every step.
    fn forget_lost(notes: &mut Vec<Note>) {
        let oldest = record::oldest_event();
        notes.retain(|note| note.next_event >= oldest);
    }
}

impl Watch for Held {
    fn holds(&mut self, category: Category, name: &str, tensor: &AnyTensor) {
        charge(Account::Host, || {
            let Storage::Address(address) = Storage::of(tensor) else { return };
            let mut notes = self.0.borrow_mut();
            if notes.len() == notes.capacity() && notes.len() >= MANY {
                Self::forget_lost(&mut notes);
            }
            notes.push(Note {
                next_event: record::next_event(),
                address,
                bytes: None,
                category,
                tensor: name.to_owned(),
                shape: tensor.dims(),
                dtype: "f32".to_owned(),
            });
        });
    }
}

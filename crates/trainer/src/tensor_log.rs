use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oomph_core::current_device;
use oomph_engine::watch::Watch;
use oomph_memory::{
    Account, charge,
    record::{self, Note},
};
use oomph_model::{AnyTensor, Storage};
use oomph_timeline::Category;

/// Notes the addresses of tensors while allocations are recorded, on the device of the noting thread. Clones share one
/// list.
#[derive(Clone, Debug, Default)]
pub(crate) struct TensorLog(Arc<Mutex<Vec<(usize, Note)>>>);

/// From this many notes on, notes of lost events are dropped.
const MANY: usize = 10_000;

impl TensorLog {
    pub(crate) fn notes_of(&self, device: usize) -> Vec<Note> {
        self.notes_since(device, 0)
    }

    /// The notes of a device since event `first`.
    pub(crate) fn notes_since(&self, device: usize, first: u64) -> Vec<Note> {
        charge(Account::Host, || {
            let notes = self.notes();
            let is_its = |note: &&(usize, Note)| note.0 == device && note.1.next_event >= first;
            notes.iter().filter(is_its).map(|(_, note)| note.clone()).collect()
        })
    }

    fn notes(&self) -> MutexGuard<'_, Vec<(usize, Note)>> {
        // A panicking thread leaves complete notes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for TensorLog {
    fn holds(&mut self, category: Category, name: &str, tensor: &AnyTensor) {
        charge(Account::Host, || {
            let Storage::Address(address) = Storage::of(tensor) else { return };
            let mut notes = self.notes();
            if notes.len() == notes.capacity() && notes.len() >= MANY {
                // Every step notes the parameters again.
                let oldest = record::oldest_event();
                notes.retain(|(_, note)| note.next_event >= oldest);
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

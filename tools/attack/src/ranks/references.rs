//! Runs that nobody disturbs, one for each training and number of ranks.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use super::Trouble;
use crate::Folder;

/// Which training, and by how many ranks.
type Key = (&'static str, usize);

/// A run that nobody disturbed.
#[derive(Debug)]
pub(super) struct Reference {
    /// The folder that it lies in, which its checkpoint is removed with.
    pub(super) folder: Folder,
    /// The checksums of what it trained.
    pub(super) trained: Vec<(String, String)>,
    /// The size of its run directory, as a disk counts it.
    pub(super) bytes: u64,
    /// The size of its largest file.
    pub(super) largest: u64,
}

/// All references that were needed so far.
#[derive(Debug, Default)]
pub(super) struct References(Mutex<HashMap<Key, Slot>>);

/// A reference, once it was trained. Whoever trains it holds the lock.
type Slot = Arc<Mutex<Option<Arc<Reference>>>>;

impl References {
    /// The reference of a training, trained at the first call.
    pub(super) fn get(
        &self,
        key: Key,
        train: impl FnOnce() -> Result<Reference, Trouble>,
    ) -> Result<Arc<Reference>, Trouble> {
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reference) = &*slot {
            return Ok(reference.clone());
        }
        Ok(slot.insert(Arc::new(train()?)).clone())
    }
}

impl Reference {
    /// The model that it trained.
    pub(super) fn model(&self) -> PathBuf {
        self.folder.at("run/checkpoints/latest/model.safetensors")
    }
}

/// The bytes that a folder takes on a disk of 4 KiB pages, and the size of its largest file.
pub(super) fn sizes(folder: &Path) -> std::io::Result<(u64, u64)> {
    const PAGE: u64 = 4096;
    let (mut all, mut largest) = (PAGE, 0);
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            let (bytes, of_file) = sizes(&entry.path())?;
            all += bytes;
            largest = largest.max(of_file);
        } else {
            all += metadata.len().next_multiple_of(PAGE);
            largest = largest.max(metadata.len());
        }
    }
    Ok((all, largest))
}

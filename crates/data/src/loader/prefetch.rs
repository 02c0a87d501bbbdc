use std::{
    collections::BTreeMap,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use super::Assembler;
use crate::{Batch, DataError};

/// Threads that make batches ahead of the one who takes them.
///
/// A worker claims the next position, makes its batch alone and puts it on the shelf; the taker waits for the
/// batches in order. No position is claimed that is `prefetch` or more ahead of the taker.
pub(super) struct Prefetcher {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    assembler: Assembler,
    prefetch: usize,
    shelf: Mutex<Shelf>,
    /// A batch was put on the shelf.
    arrived: Condvar,
    /// A batch was taken from it, or all is to stop.
    room: Condvar,
    stopped: AtomicBool,
}

struct Shelf {
    /// The position that a worker claims next.
    claim: usize,
    /// The position that is taken next.
    take: usize,
    ready: BTreeMap<usize, Result<Batch, DataError>>,
}

impl Prefetcher {
    pub(super) fn start(assembler: Assembler, first: usize, workers: usize, prefetch: usize) -> Self {
        let shared = Arc::new(Shared {
            assembler,
            prefetch,
            shelf: Mutex::new(Shelf { claim: first, take: first, ready: BTreeMap::new() }),
            arrived: Condvar::new(),
            room: Condvar::new(),
            stopped: AtomicBool::new(false),
        });
        let workers = (0..workers)
            .map_while(|worker| {
                let shared = shared.clone();
                let name = format!("oomph-loader-{worker}");
                thread::Builder::new().name(name).spawn(move || shared.work()).ok()
            })
            .collect();
        Self { shared, workers }
    }

    pub(super) fn next(&mut self) -> Option<Result<Batch, DataError>> {
        if self.workers.is_empty() {
            // The system gave no thread at all.
            let position = self.shared.claim()?;
            self.shared.lock().take += 1;
            return self.shared.assembler.batch(position, || false);
        }
        self.shared.take()
    }
}

impl Drop for Prefetcher {
    fn drop(&mut self) {
        self.shared.stop();
        for worker in self.workers.drain(..) {
            // A worker that panicked has nothing left to say: panics of the source are caught where they happen.
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        while let Some(position) = self.claim() {
            let Some(batch) = self.assembler.batch(position, || self.stopped.load(Ordering::Relaxed)) else {
                return;
            };
            self.lock().ready.insert(position, batch);
            self.arrived.notify_one();
        }
    }

    /// The next position to make, once there is room for it; `None` at the end of the epoch or when stopped.
    fn claim(&self) -> Option<usize> {
        let crowded = |shelf: &mut Shelf| {
            !self.stopped.load(Ordering::Relaxed)
                && shelf.claim < self.assembler.batches()
                && shelf.claim >= shelf.take + self.prefetch
        };
        let mut shelf = self.room.wait_while(self.lock(), crowded).unwrap_or_else(PoisonError::into_inner);
        let position = shelf.claim;
        if self.stopped.load(Ordering::Relaxed) || position >= self.assembler.batches() {
            return None;
        }
        shelf.claim += 1;
        Some(position)
    }

    /// The next batch in order, once it is there; `None` at the end of the epoch.
    fn take(&self) -> Option<Result<Batch, DataError>> {
        let mut shelf = self.lock();
        let position = shelf.take;
        if position >= self.assembler.batches() {
            return None;
        }
        let batch = loop {
            match shelf.ready.remove(&position) {
                Some(batch) => break batch,
                None => shelf = self.arrived.wait(shelf).unwrap_or_else(PoisonError::into_inner),
            }
        };
        shelf.take += 1;
        drop(shelf);
        self.room.notify_all();
        Some(batch)
    }

    fn stop(&self) {
        let shelf = self.lock();
        // Under the lock, so that no worker falls asleep between looking at it and waiting.
        self.stopped.store(true, Ordering::Relaxed);
        drop(shelf);
        self.room.notify_all();
    }

    /// The shelf is whole at every moment it is unlocked, so a poisoned lock says nothing about it.
    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

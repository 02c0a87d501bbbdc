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

/// Threads that make batches ahead of the consumer.
///
/// A worker claims the next position, makes its batch alone and puts it on the shelf; the consumer takes the batches in
/// order. Workers stay less than [`Shelf::ahead`] positions ahead of the consumer.
pub(super) struct Prefetcher {
    shared: Arc<PrefetchState>,
    workers: Vec<JoinHandle<()>>,
}

struct PrefetchState {
    assembler: Assembler,
    /// The first position for the consumer.
    first: usize,
    workers: usize,
    /// The most that [`Shelf::ahead`] may be.
    prefetch: usize,
    shelf: Mutex<Shelf>,
    /// Signals a new batch on the shelf.
    arrived: Condvar,
    /// Signals a taken batch, or the stop.
    room: Condvar,
    stopped: AtomicBool,
}

struct Shelf {
    /// The next position for a worker.
    claim: usize,
    /// The next position for the consumer.
    take: usize,
    /// Batches that may be in the making or ready: one until the consumer had to wait. Batches that nobody waits for would only take
    /// memory.
    ahead: usize,
    ready: BTreeMap<usize, Result<Batch, DataError>>,
}

impl Prefetcher {
    pub(super) fn start(assembler: Assembler, first: usize, workers: usize, prefetch: usize) -> Self {
        let shared = Arc::new(PrefetchState {
            assembler,
            first,
            workers,
            prefetch,
            shelf: Mutex::new(Shelf { claim: first, take: first, ahead: 1, ready: BTreeMap::new() }),
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
            // The caller's thread loads: without workers, or where the system refused all threads.
            let position = self.shared.claim()?;
            self.shared.lock().take += 1;
            return self.shared.assembler.batch(position, || false);
        }
        self.shared.take()
    }
}

impl Drop for Prefetcher {
    fn drop(&mut self) {
        let shelf = self.shared.lock();
        // Set under the lock, so that no worker misses it between its check and its wait.
        self.shared.stopped.store(true, Ordering::Relaxed);
        drop(shelf);
        self.shared.room.notify_all();
        for worker in self.workers.drain(..) {
            // Panics of the source are caught in the worker, so its result has no more information.
            let _ = worker.join();
        }
    }
}

impl PrefetchState {
    fn work(&self) {
        while let Some(position) = self.claim() {
            let Some(batch) = self.assembler.batch(position, || self.stopped.load(Ordering::Relaxed)) else {
                return;
            };
            self.lock().ready.insert(position, batch);
            self.arrived.notify_one();
        }
    }

    /// The next position to make, once there is room on the shelf; `None` at the end of the epoch or after a stop.
    fn claim(&self) -> Option<usize> {
        let crowded = |shelf: &mut Shelf| {
            !self.stopped.load(Ordering::Relaxed)
                && shelf.claim < self.assembler.batches()
                && shelf.claim >= shelf.take + shelf.ahead
        };
        let mut shelf = self.room.wait_while(self.lock(), crowded).unwrap_or_else(PoisonError::into_inner);
        let position = shelf.claim;
        if self.stopped.load(Ordering::Relaxed) || position >= self.assembler.batches() {
            return None;
        }
        shelf.claim += 1;
        Some(position)
    }

    /// Waits for the next batch in order; `None` at the end of the epoch.
    fn take(&self) -> Option<Result<Batch, DataError>> {
        let mut shelf = self.lock();
        let position = shelf.take;
        if position >= self.assembler.batches() {
            return None;
        }
        // Everybody waits for the first batch.
        if position > self.first && !shelf.ready.contains_key(&position) {
            // Each worker makes one, and then more.
            shelf.ahead = (2 * shelf.ahead).max(self.workers).min(self.prefetch);
            self.room.notify_all();
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

    /// The shelf is consistent whenever the lock is free, so a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

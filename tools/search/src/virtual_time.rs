//! Workers side by side, in virtual time: nothing depends on the machine.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

/// What workers are busy with, and until when.
pub(crate) struct Workers<T> {
    count: usize,
    begun: usize,
    now: f64,
    busy: BinaryHeap<Reverse<Piece<T>>>,
}

/// A piece of work. Ordered by the time of its end, and by when it was begun.
struct Piece<T> {
    end: f64,
    begun: usize,
    work: T,
}

impl<T> Workers<T> {
    pub(crate) fn new(count: usize) -> Self {
        Self { count, begun: 0, now: 0.0, busy: BinaryHeap::new() }
    }

    pub(crate) fn has_free(&self) -> bool {
        self.busy.len() < self.count
    }

    /// Gives a free worker something that takes `length`.
    pub(crate) fn begin(&mut self, length: f64, work: T) {
        self.busy.push(Reverse(Piece { end: self.now + length, begun: self.begun, work }));
        self.begun += 1;
    }

    /// Waits for the next end.
    pub(crate) fn end(&mut self) -> Option<T> {
        let Reverse(piece) = self.busy.pop()?;
        self.now = piece.end;
        Some(piece.work)
    }
}

impl<T> Ord for Piece<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.end.total_cmp(&other.end).then_with(|| self.begun.cmp(&other.begun))
    }
}

impl<T> PartialOrd for Piece<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Piece<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Piece<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_in_the_order_of_time_and_then_of_its_beginning() {
        let mut workers = Workers::new(3);
        [(2.0, "a"), (1.0, "b"), (1.0, "c")]
            .into_iter()
            .for_each(|(length, name)| workers.begin(length, name));
        assert!(!workers.has_free());
        assert_eq!(workers.end(), Some("b"));
        workers.begin(1.0, "d");
        assert_eq!(
            [workers.end(), workers.end(), workers.end(), workers.end()],
            [Some("c"), Some("a"), Some("d"), None]
        );
    }
}

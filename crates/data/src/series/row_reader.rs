use std::{
    cell::Cell,
    io::{self, Read},
    rc::Rc,
};

use oomph_core::Bytes;

use crate::{FormatProblem, input::Input};

/// The longest row. A row is in memory as a whole before its fields are read.
const LONGEST_ROW: Bytes = Bytes::mib(16);

/// The bytes of a CSV file, of which one row may take so many.
pub(super) struct RowReader<'a> {
    input: Input<'a>,
    left: RowBudget,
}

/// The bytes that the row that is being read may still take.
#[derive(Clone)]
pub(super) struct RowBudget(Rc<Cell<u64>>);

impl RowBudget {
    /// Begins a row.
    pub(super) fn renew(&self) {
        self.0.set(LONGEST_ROW.get());
    }
}

impl<'a> RowReader<'a> {
    pub(super) fn new(input: Input<'a>) -> Self {
        Self { input, left: RowBudget(Rc::new(Cell::new(LONGEST_ROW.get()))) }
    }

    pub(super) fn left(&self) -> RowBudget {
        self.left.clone()
    }
}

impl Read for RowReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.0.get();
        if left == 0 && !buffer.is_empty() {
            return Err(io::Error::other(FormatProblem::LongRow { limit: LONGEST_ROW }));
        }
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = self.input.read(&mut buffer[..most])?;
        self.left.0.set(left - count as u64);
        Ok(count)
    }
}

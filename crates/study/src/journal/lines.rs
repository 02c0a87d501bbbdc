use std::io::{self, Read};

/// The longest line that is read, in bytes. Optuna has no bound; an attribute of this size is a mistake.
pub(crate) const LONGEST_LINE: usize = 16 << 20;

const CHUNK: usize = 64 << 10;

/// Complete lines of a journal, in order. It holds one line and one chunk of the file.
pub(crate) struct Lines<R> {
    from: R,
    buffer: Vec<u8>,
    /// Where the next line starts in the buffer.
    start: usize,
    /// How far the buffer was searched for a line end.
    searched: usize,
}

/// What comes next.
pub(crate) enum Next {
    /// A line, without its end, and how many bytes it takes with it.
    Line(Vec<u8>, u64),
    /// The file ends. So many bytes follow the last line end.
    End(u64),
    /// A line is longer than [`LONGEST_LINE`].
    TooLong,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(from: R) -> Self {
        Self { from, buffer: Vec::new(), start: 0, searched: 0 }
    }

    pub(crate) fn next(&mut self) -> io::Result<Next> {
        loop {
            let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(found) = unsearched.iter().position(|byte| *byte == b'\n') {
                let end = self.searched + found;
                let line = self.buffer.get(self.start..end).unwrap_or_default();
                let length = line.len() as u64 + 1;
                let line = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
                [self.start, self.searched] = [end + 1; 2];
                return Ok(Next::Line(line, length));
            }
            self.buffer.drain(..self.start);
            [self.start, self.searched] = [0, self.buffer.len()];
            if self.buffer.len() > LONGEST_LINE {
                return Ok(Next::TooLong);
            }
            self.buffer.reserve(CHUNK);
            let read = self.from.by_ref().take(CHUNK as u64).read_to_end(&mut self.buffer)?;
            if read == 0 {
                return Ok(Next::End(self.buffer.len() as u64));
            }
        }
    }
}

use crate::weights::{error::FormatError, source::ReadAt};

/// Reads bytes in order, up to an end.
pub(super) struct Cursor<'a> {
    bytes: &'a dyn ReadAt,
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    /// The position of the first byte of `buffer`.
    start: u64,
}

/// Bytes that are fetched at once.
const BUFFER: u64 = 1 << 14;

impl<'a> Cursor<'a> {
    /// A cursor from `at` to `end`, or to the end of the bytes.
    pub(super) fn new(bytes: &'a dyn ReadAt, at: u64, end: u64) -> Self {
        Self { bytes, at, end: end.min(bytes.len()), buffer: Vec::new(), start: 0 }
    }

    /// The position of the next byte.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    fn truncated(&self) -> FormatError {
        FormatError::Truncated { at: self.end, what: "pickle" }
    }

    pub(super) fn byte(&mut self) -> Result<u8, FormatError> {
        let within = self.at.checked_sub(self.start).and_then(|index| self.buffer.get(index as usize));
        let byte = match within {
            Some(byte) => *byte,
            None => self.fetch()?,
        };
        self.at += 1;
        Ok(byte)
    }

    /// The next byte, from a refilled buffer.
    fn fetch(&mut self) -> Result<u8, FormatError> {
        let length = self.end.saturating_sub(self.at).min(BUFFER);
        // At most `BUFFER`.
        self.buffer.resize(length as usize, 0);
        self.start = self.at;
        self.bytes.read_at(self.at, &mut self.buffer)?;
        self.buffer.first().copied().ok_or_else(|| self.truncated())
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let mut array = [0; N];
        for byte in &mut array {
            *byte = self.byte()?;
        }
        Ok(array)
    }

    /// The next `count` bytes. Missing bytes are an error before anything is allocated.
    pub(super) fn take(&mut self, count: u64) -> Result<Vec<u8>, FormatError> {
        if count > self.end.saturating_sub(self.at) {
            return Err(self.truncated());
        }
        // The check above makes sure that the file has these bytes.
        let mut taken = vec![0; count as usize];
        self.bytes.read_at(self.at, &mut taken)?;
        self.at += count;
        Ok(taken)
    }

    /// Skips bytes.
    pub(super) fn skip(&mut self, count: u64) -> Result<(), FormatError> {
        if count > self.end.saturating_sub(self.at) {
            return Err(self.truncated());
        }
        self.at += count;
        Ok(())
    }

    /// The bytes up to the next end of a line, without it.
    pub(super) fn line(&mut self) -> Result<Vec<u8>, FormatError> {
        let at = self.at;
        let mut line = Vec::new();
        loop {
            match self.byte()? {
                b'\n' => return Ok(line),
                _ if line.len() == LONGEST_LINE => {
                    return Err(FormatError::TooMany { at, most: LONGEST_LINE, what: "bytes of a name" });
                }
                byte => line.push(byte),
            }
        }
    }
}

/// The names of modules and classes are lines.
const LONGEST_LINE: usize = 1024;

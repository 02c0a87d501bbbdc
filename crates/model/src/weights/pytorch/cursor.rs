use crate::weights::{error::FormatError, source::ReadAt};

/// Reads bytes one after the other, up to an end.
pub(super) struct Cursor<'a> {
    bytes: &'a dyn ReadAt,
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    /// Where `buffer` begins.
    start: u64,
}

/// Bytes that are fetched at once.
const BUFFER: u64 = 1 << 14;

impl<'a> Cursor<'a> {
    /// From `at` to `end`, or to where the bytes end.
    pub(super) fn new(bytes: &'a dyn ReadAt, at: u64, end: u64) -> Self {
        Self { bytes, at, end: end.min(bytes.len()), buffer: Vec::new(), start: 0 }
    }

    /// The place of the next byte.
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

    /// The next byte, of a new buffer.
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

    /// So many bytes. Nothing is allocated for what is not there.
    pub(super) fn take(&mut self, count: u64) -> Result<Vec<u8>, FormatError> {
        if count > self.end.saturating_sub(self.at) {
            return Err(self.truncated());
        }
        // There are as many in the file.
        let mut taken = vec![0; count as usize];
        self.bytes.read_at(self.at, &mut taken)?;
        self.at += count;
        Ok(taken)
    }

    /// Goes on so many bytes further.
    pub(super) fn skip(&mut self, count: u64) -> Result<(), FormatError> {
        if count > self.end.saturating_sub(self.at) {
            return Err(self.truncated());
        }
        self.at += count;
        Ok(())
    }

    /// The bytes up to the next end of a line, which is left out.
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

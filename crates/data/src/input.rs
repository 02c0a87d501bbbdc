use std::{
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use flate2::bufread::MultiGzDecoder;
use oomph_core::{Bytes, open_file};

use crate::{DataError, Flaw, FormatProblem};

/// The first bytes of gzip files.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The bytes of a data file in order, decompressed if they are gzip.
///
/// It does not trust sizes in the file. It counts the bytes that it reads, and fails at the limit.
pub(crate) struct Input<'a> {
    bytes: Box<dyn Read + 'a>,
    /// The number of bytes read.
    place: u64,
    /// The largest number of bytes.
    limit: Bytes,
    /// The size of the file itself.
    file_bytes: u64,
}

impl<'a> Input<'a> {
    /// The bytes of `file`, whose size is `file_bytes`, up to `limit`. The first bytes identify gzip, not the name.
    ///
    /// # Errors
    /// A file that is too large or cannot be read.
    pub(crate) fn new(file: impl Read + 'a, file_bytes: u64, limit: Bytes) -> Result<Self, Flaw> {
        if file_bytes > limit.get() {
            return Err(Flaw::new(0u64, FormatProblem::TooLarge { at_least: Bytes::new(file_bytes), limit }));
        }
        let mut file = BufReader::with_capacity(buffer(file_bytes), file);
        let first = file.fill_buf().map_err(|error| Flaw::new(0u64, FormatProblem::Unreadable(error)))?;
        let bytes: Box<dyn Read + 'a> =
            if first.starts_with(&GZIP) { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        Ok(Self { bytes, place: 0, limit, file_bytes })
    }

    /// The size of the file itself, in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// A flaw at the current place.
    pub(crate) fn flaw(&self, problem: FormatProblem) -> Flaw {
        Flaw::new(self.place, problem)
    }

    /// The next `N` bytes; `what` names them in errors.
    pub(crate) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Flaw> {
        let mut array = [0; N];
        let mut filled = 0;
        while filled < N {
            match self.some(&mut array[filled..])? {
                0 => {
                    let missing = (N - filled) as u64;
                    return Err(self.flaw(FormatProblem::Truncated { missing, what }));
                }
                count => filled += count,
            }
        }
        Ok(array)
    }

    /// The next `count` bytes; `what` names them in errors. Memory is allocated only for bytes that exist.
    pub(crate) fn exactly(&mut self, count: u64, what: &'static str) -> Result<Vec<u8>, Flaw> {
        if let Some(end) = self.place.checked_add(count).filter(|end| *end > self.limit.get()) {
            return Err(self.flaw(FormatProblem::TooLarge { at_least: Bytes::new(end), limit: self.limit }));
        }
        let bytes = self.up_to(count)?;
        match count - bytes.len() as u64 {
            0 => Ok(bytes),
            missing => Err(self.flaw(FormatProblem::Truncated { missing, what })),
        }
    }

    pub(crate) fn rest(&mut self) -> Result<Vec<u8>, Flaw> {
        let bytes = self.up_to(self.left())?;
        self.end_at_limit()?;
        Ok(bytes)
    }

    /// The next bytes, at most `most`; none at the end.
    pub(crate) fn next_bytes(&mut self, most: u64) -> Result<Vec<u8>, Flaw> {
        match self.left() {
            0 => self.end_at_limit().map(|()| Vec::new()),
            left => self.up_to(most.min(left)),
        }
    }

    /// The bytes up to the limit.
    fn left(&self) -> u64 {
        self.limit.get().saturating_sub(self.place)
    }

    /// Refuses bytes behind the limit.
    fn end_at_limit(&mut self) -> Result<(), Flaw> {
        self.end().map_err(|flaw| match flaw.problem {
            FormatProblem::Trailing => {
                let at_least = Bytes::new(self.limit.get().saturating_add(1));
                Flaw::new(flaw.byte, FormatProblem::TooLarge { at_least, limit: self.limit })
            }
            problem => Flaw { problem, ..flaw },
        })
    }

    pub(crate) fn end(&mut self) -> Result<(), Flaw> {
        match self.some(&mut [0])? {
            0 => Ok(()),
            _ => Err(Flaw::new(self.place - 1, FormatProblem::Trailing)),
        }
    }

    fn up_to(&mut self, count: u64) -> Result<Vec<u8>, Flaw> {
        // A plain file gives no more bytes than its size; the content of a compressed file grows the buffer.
        let room = count.min(self.file_bytes.saturating_sub(self.place));
        let mut bytes = Vec::with_capacity(usize::try_from(room).unwrap_or(0));
        let read = (&mut self.bytes).take(count).read_to_end(&mut bytes);
        self.place += bytes.len() as u64;
        read.map(|_| bytes).map_err(|error| self.flaw(FormatProblem::Unreadable(error)))
    }

    fn some(&mut self, buffer: &mut [u8]) -> Result<usize, Flaw> {
        loop {
            match self.bytes.read(buffer) {
                Ok(count) => {
                    self.place += count as u64;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.flaw(FormatProblem::Unreadable(error))),
            }
        }
    }
}

/// Reads count towards the limit, and fail beyond it.
impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left();
        if left == 0 && !buffer.is_empty() {
            return match self.some(&mut [0]) {
                Ok(0) => Ok(0),
                Ok(_) => {
                    let at_least = Bytes::new(self.place);
                    Err(io::Error::other(FormatProblem::TooLarge { at_least, limit: self.limit }))
                }
                Err(flaw) => Err(io::Error::other(flaw)),
            };
        }
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = self.bytes.read(&mut buffer[..most])?;
        self.place += count as u64;
        Ok(count)
    }
}

/// The size of a buffer: no larger than the file.
pub(crate) fn buffer(file_bytes: u64) -> usize {
    const MOST: u64 = 1 << 16;
    file_bytes.clamp(64, MOST) as usize
}

/// Opens the data file at `path` and hands its bytes to `read`.
pub(crate) fn read_file<T>(
    path: &Path,
    limit: Bytes,
    read: impl FnOnce(Input<'_>) -> Result<T, Flaw>,
) -> Result<T, DataError> {
    let refused = |source| DataError::Io { path: path.to_owned(), source };
    let file = open_file(path).map_err(refused)?;
    let file_bytes = file.metadata().map_err(refused)?.len();
    let in_file = |flaw: Flaw| DataError::Format(flaw.in_file(path));
    let input = Input::new(file, file_bytes, limit).map_err(in_file)?;
    read(input).map_err(in_file)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).expect("written to memory");
        encoder.finish().expect("written to memory")
    }

    fn input(bytes: &[u8], limit: u64) -> Result<Input<'_>, Flaw> {
        Input::new(bytes, bytes.len() as u64, Bytes::new(limit))
    }

    fn all(bytes: &[u8], limit: u64) -> Result<Vec<u8>, Flaw> {
        input(bytes, limit)?.rest()
    }

    #[test]
    fn compressed_and_plain_bytes_are_the_same() {
        let bytes: Vec<_> = (0..=255u8).cycle().take(10_000).collect();
        assert_eq!(all(&bytes, 1 << 20).expect("whole"), bytes);
        assert_eq!(all(&packed(&bytes), 1 << 20).expect("whole"), bytes);
    }

    #[test]
    fn decompression_ends_at_the_limit() {
        let bomb = packed(&vec![0; 1 << 20]);
        assert!(bomb.len() < 2000);
        let flaw = all(&bomb, 5000).expect_err("a bomb");
        assert_eq!(flaw.byte, 5000);
        assert!(matches!(flaw.problem, FormatProblem::TooLarge { .. }), "{flaw}");
        let mut read = Vec::new();
        let error = input(&bomb, 5000).expect("small itself").read_to_end(&mut read).expect_err("a bomb");
        assert!(read.len() <= 5000 && error.to_string().contains("data.max_file_bytes"), "{error}");
        assert!(matches!(all(&[1; 11], 10).expect_err("too large").problem, FormatProblem::TooLarge { .. }));
        assert_eq!(all(&[1; 10], 10).expect("just small enough").len(), 10);
    }

    #[test]
    fn damaged_gzip_is_refused_with_its_place() {
        let bytes: Vec<_> = (0..4000u32).flat_map(|value| (value * value).to_le_bytes()).collect();
        let whole = packed(&bytes);
        for end in [2, 10, whole.len() / 2, whole.len() - 1] {
            let flaw = all(&whole[..end], 1 << 20).expect_err("cut");
            assert!(matches!(flaw.problem, FormatProblem::Unreadable(_)), "{flaw}");
        }
        let mut changed = whole.clone();
        let sum = changed.len() - 6;
        changed[sum] ^= 1;
        assert!(all(&changed, 1 << 20).is_err());
    }

    #[test]
    fn missing_bytes_are_not_allocated() {
        let flaw = input(&[7; 20], u64::MAX).and_then(|mut input| input.exactly(u64::MAX / 2, "pixels"));
        let flaw = flaw.expect_err("20 bytes");
        assert_eq!(flaw.byte, 20);
        assert!(matches!(flaw.problem, FormatProblem::Truncated { .. }), "{flaw}");
    }
}

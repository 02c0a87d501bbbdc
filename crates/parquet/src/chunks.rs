//! Where the decoder gets its bytes.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    sync::Arc,
};

use bytes::Bytes as Buffer;
use oomph_core::{Bytes, system::read_exact_at};
use parquet::{
    errors::{ParquetError, Result},
    file::reader::{ChunkReader, Length},
};

use crate::compact::{Compact, Field, I32};

/// Bytes that are read at any place.
pub trait ReadAt: Send + Sync + 'static {
    /// Their number.
    fn size(&self) -> u64;

    /// Fills `buffer` with the bytes from `at` on.
    ///
    /// # Errors
    /// There are fewer bytes, or they cannot be read.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()>;
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        let from = usize::try_from(at).ok().and_then(|at| self.get(at..)?.get(..buffer.len()));
        buffer.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// An open file.
#[derive(Debug)]
pub struct FileAt {
    file: File,
    size: u64,
}

impl FileAt {
    /// A file that is open to read.
    ///
    /// # Errors
    /// Its size cannot be read.
    pub fn new(file: File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        Ok(Self { file, size })
    }
}

impl ReadAt for FileAt {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        read_exact_at(&self.file, buffer, at)
    }
}

/// The bytes of a file for the decoder. It gets no page that unpacks to more than `most_page`.
pub(crate) struct Chunks<R> {
    pub(crate) file: Arc<R>,
    pub(crate) most_page: Bytes,
}

impl<R: ReadAt> Length for Chunks<R> {
    fn len(&self) -> u64 {
        self.file.size()
    }
}

impl<R: ReadAt> ChunkReader for Chunks<R> {
    type T = BufReader<FromPlace<R>>;

    /// The decoder reads the headers of pages from here, and the last 8 bytes of the file.
    fn get_read(&self, start: u64) -> Result<Self::T> {
        const HEADER: usize = 1 << 10;
        let mut read = BufReader::with_capacity(HEADER, FromPlace { file: self.file.clone(), at: start });
        if self.file.size().checked_sub(start) != Some(8) {
            let unpacked = unpacked_bytes(Compact(read.fill_buf()?));
            let unpacked = unpacked.ok_or_else(|| ParquetError::General("no page begins here".to_owned()))?;
            if unpacked > self.most_page.get() {
                return Err(ParquetError::General(format!("a page has more than {}", self.most_page)));
            }
        }
        Ok(read)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Buffer> {
        let end = start.checked_add(length as u64);
        if end.is_none_or(|end| end > self.file.size()) {
            return Err(ParquetError::EOF("the file ends too early".to_owned()));
        }
        let mut buffer = vec![0; length];
        self.file.read_at(&mut buffer, start)?;
        Ok(buffer.into())
    }
}

/// The bytes of the page that this header announces, unpacked.
fn unpacked_bytes(mut header: Compact<'_>) -> Option<u64> {
    let mut last = 0;
    while let Some(Field { id, kind }) = header.field(last)? {
        if (id, kind) == (2, I32) {
            return u64::try_from(header.signed()?).ok();
        }
        header.skip(kind)?;
        last = id;
    }
    None
}

/// The bytes of a file from a place on.
pub(crate) struct FromPlace<R> {
    file: Arc<R>,
    at: u64,
}

impl<R: ReadAt> Read for FromPlace<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.file.size().saturating_sub(self.at)).unwrap_or(usize::MAX);
        let count = buffer.len().min(left);
        self.file.read_at(&mut buffer[..count], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

use std::{fs::File, io};

use oomph_core::system::read_exact_at;

/// Bytes with random access: memory, or a file that is never in memory as a whole.
///
/// A file is read and not mapped, since truncating a mapped file kills the process.
pub(crate) trait ReadAt {
    /// The number of bytes.
    fn len(&self) -> u64;

    /// Fills `buffer` with the bytes from `at` on.
    ///
    /// # Errors
    /// There are fewer bytes.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for &[u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(at).ok().and_then(|at| self.get(at..)?.get(..buffer.len()));
        buffer.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A file and its length when it was opened.
#[derive(Debug)]
pub(crate) struct FileBytes {
    file: File,
    len: u64,
}

impl FileBytes {
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self { file, len })
    }
}

impl ReadAt for FileBytes {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        read_exact_at(&self.file, buffer, at)
    }
}

/// `N` bytes from `at` on.
pub(crate) fn array<const N: usize>(bytes: &dyn ReadAt, at: u64) -> io::Result<[u8; N]> {
    let mut array = [0; N];
    bytes.read_at(at, &mut array)?;
    Ok(array)
}

use sha2::{Digest as _, Sha256};

/// The SHA-256 of pieces of data, each with its length: the same bytes in other pieces are other data.
#[derive(Default)]
pub(crate) struct Digest(Sha256);

impl Digest {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.0.update((piece.len() as u64).to_le_bytes());
        self.0.update(piece);
    }

    /// The digest, in hexadecimal digits.
    pub(crate) fn finish(self) -> String {
        format!("{:x}", self.0.finalize())
    }
}

/// The bytes of 32-bit values.
pub(crate) fn little_endian(values: impl Iterator<Item = [u8; 4]>) -> Vec<u8> {
    values.flatten().collect()
}

use sha2::{Digest as _, Sha256};

use crate::transform::ImageShape;

/// A sample as it is stored. A field is empty where a source has no such thing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredSample {
    /// The size of the stored image, and its channels: 1 grey, 2 grey with alpha, 3 colour, 4 colour with alpha.
    pub image: Option<ImageShape>,
    /// The tokens of a text.
    pub tokens: Vec<i32>,
    /// What the sample consists of, to find equal ones.
    pub content: Option<Content>,
}

/// The digest of a sample's content: the first half of its SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Content([u8; 16]);

impl Content {
    /// The digest of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let digest: [u8; 32] = Sha256::digest(bytes).into();
        Self(std::array::from_fn(|place| digest[place]))
    }
}

impl StoredSample {
    /// A sample that consists of these bytes.
    pub fn with_content(bytes: &[u8]) -> Self {
        Self { content: Some(Content::of(bytes)), ..Self::default() }
    }
}

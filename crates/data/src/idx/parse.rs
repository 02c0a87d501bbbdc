use crate::{Flaw, FormatProblem, input::Input};

/// The content of an IDX file of unsigned bytes.
///
/// The format is that of [MNIST](http://yann.lecun.com/exdb/mnist/): two zero bytes, one for the type (8: unsigned
/// byte), one for the number of dimensions, the dimensions as big-endian 32-bit integers, then the values with the last
/// dimension fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Idx {
    /// The size of each dimension; the first is the number of samples.
    pub(crate) dims: Vec<usize>,
    /// The values.
    pub(crate) values: Vec<u8>,
}

/// The type of unsigned bytes.
const UNSIGNED_BYTE: u8 = 8;

/// The expected content of an IDX file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// The possible numbers of dimensions.
    ranks: &'static [u8],
    /// The first bytes, in words.
    expected: &'static str,
    what: &'static str,
}

impl Content {
    /// One label per sample.
    pub(crate) const LABELS: Self = Self {
        ranks: &[1],
        expected: "0x00000801, unsigned bytes in 1 dimension, for labels",
        what: "labels",
    };
    /// One image per sample: `[count, height, width]`, or with one more dimension for the channels.
    pub(crate) const IMAGES: Self = Self {
        ranks: &[3, 4],
        expected: "0x00000803 or 0x00000804, unsigned bytes in 3 or 4 dimensions, for images",
        what: "pixels",
    };
}

impl Idx {
    /// Reads a whole file. Memory grows with the bytes that arrive, whatever the header announces.
    ///
    /// # Errors
    /// A file of another kind, with another length than its header announces, or above the limit of `input`.
    pub(crate) fn read(mut input: Input<'_>, content: Content) -> Result<Self, Flaw> {
        let magic: [u8; 4] = input.array("its header")?;
        let [0, 0, UNSIGNED_BYTE, rank] = magic else { return Err(wrong_magic(magic, content)) };
        if !content.ranks.contains(&rank) {
            return Err(wrong_magic(magic, content));
        }
        let mut dims = Vec::with_capacity(rank.into());
        for _ in 0..rank {
            dims.push(u32::from_be_bytes(input.array("its header")?));
        }
        if dims.contains(&0) {
            return Err(input.flaw(FormatProblem::Nothing { what: content.what }));
        }
        let count = dims.iter().try_fold(1u64, |count, &dim| count.checked_mul(dim.into()));
        // The product must fit in `usize`, which may have 32 bits.
        let Some(count) = count.filter(|count| usize::try_from(*count).is_ok()) else {
            return Err(input.flaw(FormatProblem::Overflow { dims }));
        };
        let values = input.exactly(count, content.what)?;
        input.end()?;
        Ok(Self { dims: dims.into_iter().map(|dim| dim as usize).collect(), values })
    }
}

fn wrong_magic(magic: [u8; 4], content: Content) -> Flaw {
    let found = u32::from_be_bytes(magic);
    Flaw::new(0u64, FormatProblem::Magic { found, expected: content.expected })
}

#[cfg(test)]
mod tests {
    use oomph_core::Bytes;
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn read(bytes: &[u8], content: Content) -> Result<Idx, Flaw> {
        Idx::read(Input::new(bytes, bytes.len() as u64, Bytes::mib(1))?, content)
    }

    fn file(dims: &[u32], values: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 0, 8, dims.len() as u8];
        bytes.extend(dims.iter().flat_map(|dim| dim.to_be_bytes()));
        bytes.extend(values);
        bytes
    }

    #[test]
    fn a_file_is_its_dimensions_and_values() {
        let images = read(&file(&[2, 1, 3], &[1, 2, 3, 4, 5, 6]), Content::IMAGES).expect("whole");
        assert_eq!(images, Idx { dims: vec![2, 1, 3], values: vec![1, 2, 3, 4, 5, 6] });
        let labels = read(&file(&[3], &[7, 8, 9]), Content::LABELS).expect("whole");
        assert_eq!(labels.values, [7, 8, 9]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_byte() {
        let check = |bytes: &[u8], content, says: &str| {
            assert_eq!(read(bytes, content).expect_err(says).to_string(), says);
        };
        let labels = file(&[3], &[7, 8, 9]);
        check(
            &labels,
            Content::IMAGES,
            "byte 0: the file begins with 0x00000801; expected 0x00000803 or 0x00000804, unsigned bytes in 3 or 4 \
             dimensions, for images",
        );
        check(
            b"\x89PNG....",
            Content::LABELS,
            "byte 0: the file begins with 0x89504e47; expected 0x00000801, unsigned bytes in 1 dimension, for labels",
        );
        check(
            &labels[..3],
            Content::LABELS,
            "byte 3: the file ends here; expected 1 more bytes of its header",
        );
        check(
            &labels[..6],
            Content::LABELS,
            "byte 6: the file ends here; expected 2 more bytes of its header",
        );
        check(&labels[..9], Content::LABELS, "byte 9: the file ends here; expected 2 more bytes of labels");
        check(
            &file(&[3], &[7, 8, 9, 0]),
            Content::LABELS,
            "byte 11: the file continues after the data that its header announces",
        );
        check(&file(&[0], &[]), Content::LABELS, "byte 8: the file has no labels");
        check(
            &file(&[u32::MAX; 3], &[0; 100]),
            Content::IMAGES,
            "byte 16: the product of the sizes [4294967295, 4294967295, 4294967295] overflows",
        );
        check(
            &file(&[1 << 10, 1 << 10, 2], &[0; 100]),
            Content::IMAGES,
            "byte 16: the size is 2.00 MiB or more, above `data.max_file_bytes` of 1.00 MiB",
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..100), images: bool) {
            let content = if images { Content::IMAGES } else { Content::LABELS };
            prop_assert!(read(&bytes, content).is_err() || bytes.starts_with(&[0, 0, 8]));
        }

        #[test]
        fn any_header_is_read_or_refused(dims in vec(any::<u32>(), 3..=4), values in vec(any::<u8>(), 0..50)) {
            prop_assert!(read(&file(&dims, &values), Content::IMAGES).is_err());
        }

        #[test]
        fn what_is_written_is_read((height, width) in (1u32..6, 1u32..6), values in vec(any::<u8>(), 1..90)) {
            let count = values.len() as u32 / (height * width);
            let values = &values[..(count * height * width) as usize];
            let dims = [count, height, width];
            match read(&file(&dims, values), Content::IMAGES) {
                Ok(idx) => prop_assert_eq!(&idx.values, values),
                Err(_) => prop_assert_eq!(count, 0),
            }
        }
    }
}

use crate::{
    Flaw, FormatProblem,
    input::Input,
    memory_images::{ImagePart, LabelRule, Labels, PixelBlock},
    transform::ImageShape,
};

pub(crate) const SHAPE: ImageShape = ImageShape { channels: 3, height: 32, width: 32 };
pub(crate) const CLASSES: usize = 10;
/// The bytes of a record: the label, then the pixels by channel and row.
pub(crate) const RECORD: usize = 1 + SHAPE.elements();

/// The number of records of a file in [CIFAR-10's binary format](https://www.cs.toronto.edu/~kriz/cifar.html).
///
/// There is no header, so only the size and the labels reveal a file of another format.
///
/// # Errors
/// A file without a record, or one that ends within a record.
fn records(bytes: &[u8]) -> Result<usize, Flaw> {
    let end = bytes.len();
    match (end / RECORD, end % RECORD) {
        (0, 0) => Err(Flaw::new(0u64, FormatProblem::Nothing { what: "images" })),
        (count, 0) => Ok(count),
        (_, part) => {
            let missing = (RECORD - part) as u64;
            Err(Flaw::new(end, FormatProblem::Truncated { missing, what: "an image" }))
        }
    }
}

/// Adds the images of a whole file to a part.
///
/// # Errors
/// A file that [`records`] refuses, or a label that the rule does.
pub(crate) fn read(
    mut input: Input<'_>,
    file: String,
    rule: LabelRule,
    part: &mut ImagePart,
) -> Result<(), Flaw> {
    let bytes = input.rest()?;
    let count = records(&bytes)?;
    let labels = bytes.iter().step_by(RECORD).copied().collect();
    let labels = Labels { file: &file.clone(), first_byte: 0, stride: RECORD, labels };
    part.push_labelled(PixelBlock { file, bytes, first: 1, stride: RECORD, count }, labels, rule)
}

/// The names of the classes in `batches.meta.txt`: one per line; empty lines are ignored.
///
/// # Errors
/// Bytes that are not text, or another number of names.
pub(crate) fn class_names(bytes: &[u8]) -> Result<Vec<String>, Flaw> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| Flaw::new(error.valid_up_to(), FormatProblem::NotText))?;
    let names: Vec<_> = text.lines().map(str::trim).filter(|name| !name.is_empty()).collect();
    match names.len() {
        CLASSES => Ok(names.into_iter().map(str::to_owned).collect()),
        found => Err(Flaw::new(bytes.len(), FormatProblem::Names { found, expected: CLASSES })),
    }
}

#[cfg(test)]
mod tests {
    use oomph_core::Bytes;
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::OnCorrupt;

    #[test]
    fn a_file_is_made_of_whole_records() {
        assert_eq!(records(&vec![0; 3 * 3073]).expect("whole"), 3);
        let says = |bytes: &[u8]| records(bytes).expect_err("not whole").to_string();
        assert_eq!(says(&[]), "byte 0: the file has no images");
        assert_eq!(
            says(&vec![0; 2 * 3073 - 1]),
            "byte 6145: the file ends here; expected 1 more bytes of an image"
        );
    }

    fn read_bytes(bytes: &[u8], on_corrupt: OnCorrupt) -> Result<(), Flaw> {
        let input = Input::new(bytes, bytes.len() as u64, Bytes::mib(1))?;
        let rule = LabelRule { first: 0, classes: CLASSES, on_corrupt };
        read(input, "x".to_owned(), rule, &mut ImagePart::default())
    }

    #[test]
    fn a_label_that_is_no_class_is_found_where_it_is() {
        let mut bytes = vec![200; 3 * RECORD];
        bytes.iter_mut().step_by(RECORD).for_each(|label| *label = 9);
        assert!(read_bytes(&bytes, OnCorrupt::Fail).is_ok());
        bytes[2 * RECORD] = 10;
        let flaw = read_bytes(&bytes, OnCorrupt::Fail).expect_err("10 is none of ten");
        assert_eq!(flaw.to_string(), "byte 6146: label 10 is not among the 10 classes, which are 0 to 9");
        assert!(read_bytes(&bytes, OnCorrupt::Skip).is_ok());
    }

    #[test]
    fn there_are_as_many_names_as_classes() {
        let names = b"airplane\r\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n";
        assert_eq!(class_names(names).expect("ten names")[..2], ["airplane", "automobile"]);
        assert_eq!(
            class_names(b"cat\ndog\n").expect_err("two").to_string(),
            "byte 8: the file has 2 class names; expected 10"
        );
        assert_eq!(class_names(b"cat\n\xff").expect_err("not text").byte, 4);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..7000)) {
            prop_assert_eq!(records(&bytes).is_ok(), !bytes.is_empty() && bytes.len() % RECORD == 0);
            let _ = (read_bytes(&bytes, OnCorrupt::Fail), class_names(&bytes));
        }
    }
}

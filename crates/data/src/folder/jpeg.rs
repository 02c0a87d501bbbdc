/// Whether a JPEG is complete: whether it has an end marker.
///
/// The decoder does not report truncation; it fills missing pixels with grey. This walks all markers, because cameras add
/// bytes after the end, and embedded thumbnails have end markers too.
pub(super) fn is_complete(bytes: &[u8]) -> bool {
    const END: u8 = 0xd9;
    let mut at = 0;
    while let Some((marker, after)) = next_marker(bytes, at) {
        at = match marker {
            END => return true,
            // Markers without a segment: the start, restarts within a scan, a private one.
            0x01 | 0xd0..=0xd8 => after,
            // A segment begins with its length, which counts itself.
            _ => match bytes.get(after..after + 2) {
                Some(&[high, low]) => after + usize::from(u16::from_be_bytes([high, low])).max(2),
                _ => return false,
            },
        };
    }
    false
}

/// The next marker from `at` on, and the place after it. Within a scan, a data byte 0xff is followed by 0.
fn next_marker(bytes: &[u8], mut at: usize) -> Option<(u8, usize)> {
    loop {
        at += bytes.get(at..)?.iter().position(|&byte| byte == 0xff)? + 1;
        match *bytes.get(at)? {
            0x00 | 0xff => {}
            marker => return Some((marker, at + 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use image::{ExtendedColorType, codecs::jpeg::JpegEncoder};
    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// A JPEG whose scan has bytes of 0xff.
    fn jpeg() -> Vec<u8> {
        let mut generator = oomph_core::Generator::at(oomph_core::Key::new(1));
        let pixels: Vec<u8> = (0..32 * 32 * 3).map(|_| generator.below(256) as u8).collect();
        let mut bytes = Vec::new();
        JpegEncoder::new_with_quality(&mut bytes, 95)
            .encode(&pixels, 32, 32, ExtendedColorType::Rgb8)
            .expect("written to memory");
        bytes
    }

    #[test]
    fn a_jpeg_is_complete_up_to_its_very_end() {
        let whole = jpeg();
        assert!(is_complete(&whole));
        for length in 0..whole.len() {
            assert!(!is_complete(&whole[..length]), "{length} of {} bytes", whole.len());
        }
    }

    #[test]
    fn bytes_after_the_end_do_no_harm() {
        assert!(is_complete(&[jpeg(), vec![0; 100]].concat()));
    }

    #[test]
    fn the_end_of_a_thumbnail_is_not_the_end() {
        let whole = jpeg();
        let thumbnail = [&whole[..2], &[0xff, 0xe1, 0, 6, 0xff, 0xd8, 0xff, 0xd9], &whole[2..]].concat();
        assert!(is_complete(&thumbnail));
        assert!(!is_complete(&thumbnail[..thumbnail.len() / 2]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked_to_an_end(bytes in vec(prop_oneof![Just(0xff), any::<u8>()], 0..200)) {
            is_complete(&bytes);
        }
    }
}

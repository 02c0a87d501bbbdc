//! TFRecord framing: `length, checksum of the length, bytes, checksum of the bytes`, little-endian.
//!
//! The checksum is CRC-32C (Castagnoli), rotated and shifted by a constant so that the checksum of a text that holds
//! checksums stays apart from them: TensorFlow's `lib/io/record_writer.h` and `lib/hash/crc32c.h`.

pub(super) fn append(file: &mut Vec<u8>, record: &[u8]) {
    let length = (record.len() as u64).to_le_bytes();
    file.extend(length);
    file.extend(masked(crc32c(&length)).to_le_bytes());
    file.extend(record);
    file.extend(masked(crc32c(record)).to_le_bytes());
}

fn masked(checksum: u32) -> u32 {
    checksum.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C as in RFC 3720, appendix B.4.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    let next = |checksum: u32, byte: &u8| TABLE[usize::from((checksum as u8) ^ byte)] ^ (checksum >> 8);
    !bytes.iter().fold(u32::MAX, next)
}

/// What each byte does to the checksum.
const fn table() -> [u32; 256] {
    /// 0x1EDC6F41, the bits in reverse.
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut checksum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            checksum = (checksum >> 1) ^ if checksum & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[byte] = checksum;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standard() {
        // RFC 3720, appendix B.4, and the check value of the catalogue of CRCs.
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        for (bytes, expected) in [
            (&[0; 32][..], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&ascending, 0x46dd_794e),
            (&descending, 0x113f_db5c),
            (b"123456789", 0xe306_9283),
            (b"", 0),
        ] {
            assert_eq!(crc32c(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_record_is_framed_as_tensorflow_does() {
        let mut file = Vec::new();
        append(&mut file, b"foo");
        // Written by `RecordWriter` of tensorboard 2.21.
        let expected =
            [3, 0, 0, 0, 0, 0, 0, 0, 0xb0, 0x99, 0x49, 0x0e, b'f', b'o', b'o', 0x61, 0x8a, 0xbe, 0xfe];
        assert_eq!(file, expected);
    }
}

//! Reads TensorBoard event files: records of a length, its checksum, the data, and their checksum.

/// Counts the whole records of a file. An incomplete record at the end is that of a process that still writes, or was
/// killed.
pub(super) fn records(mut bytes: &[u8]) -> Result<usize, String> {
    let mut count = 0;
    while let Some((length, after)) = bytes.split_first_chunk::<8>() {
        let Some((sum, data)) = after.split_first_chunk::<4>() else { break };
        if masked(length) != u32::from_le_bytes(*sum) {
            return Err(format!("the length of record {count} has another checksum"));
        }
        let length = u64::from_le_bytes(*length) as usize;
        let Some((data, after)) = data.split_at_checked(length) else { break };
        let Some((sum, rest)) = after.split_first_chunk::<4>() else { break };
        if masked(data) != u32::from_le_bytes(*sum) {
            return Err(format!("record {count} has another checksum"));
        }
        count += 1;
        bytes = rest;
    }
    Ok(count)
}

/// The checksum of TensorFlow: CRC-32C, rotated and shifted.
fn masked(bytes: &[u8]) -> u32 {
    let mut sum = !0_u32;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            // The polynomial of Castagnoli, with its bits reversed.
            sum = (sum >> 1) ^ (0x82f6_3b78 & (sum & 1).wrapping_neg());
        }
    }
    (!sum).rotate_right(15).wrapping_add(0xa282_ead8)
}

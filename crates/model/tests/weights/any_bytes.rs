//! The reader accepts or refuses any bytes, without a panic.

use oomph_model::weights::read_bytes;
use proptest::{collection::vec, num::u8::ANY, prelude::*};

use crate::{GOLDEN, archive::torch, golden};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn bytes_of_any_kind(bytes in vec(ANY, 0..400)) {
        let _ = read_bytes(&bytes);
    }

    #[test]
    fn any_pickle_in_an_archive(pickle in vec(ANY, 0..200)) {
        let _ = read_bytes(&torch(&pickle));
    }

    /// Bytes in which known instructions are frequent.
    #[test]
    fn any_program_of_known_instructions(
        pickle in vec(prop_oneof![
            3 => proptest::sample::select(b"()]}tuesaRbQNqhK\x85\x86\x87\x88\x94".to_vec()),
            1 => 0u8..4,
        ], 0..80),
        globals in any::<bool>(),
    ) {
        let start: &[u8] = if globals { b"ccollections\nOrderedDict\nq\x00ctorch\nFloatStorage\nq\x01" } else { b"}" };
        let _ = read_bytes(&torch(&[start, &pickle, b"."].concat()));
    }

    #[test]
    fn any_safetensors_header(header in "[{}\\[\\]\",:a0-9F]{0,120}", data in vec(ANY, 0..40)) {
        let length = (header.len() as u64 + 1).to_le_bytes();
        let _ = read_bytes(&[&length[..], b"{", header.as_bytes(), &data].concat());
    }

    /// Changed bytes, a missing piece, a missing end.
    #[test]
    fn files_that_were_damaged(
        file in 0..GOLDEN.len(),
        changes in vec((any::<prop::sample::Index>(), ANY), 0..6),
        cut in any::<(prop::sample::Index, prop::sample::Index, bool)>(),
    ) {
        let mut bytes = golden(GOLDEN[file]);
        for (at, byte) in &changes {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        let (from, to, is_cut) = cut;
        let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
        if is_cut {
            bytes.drain(from.min(to)..from.max(to));
        } else if changes.is_empty() {
            bytes.truncate(to);
        }
        let _ = read_bytes(&bytes);
    }
}

/// Every byte of every file, set to extreme values.
#[test]
fn every_byte_changed() {
    for file in GOLDEN {
        let whole = golden(file);
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            for byte in [0x00, 0x7f, 0xff, whole[at] ^ 1] {
                bytes[at] = byte;
                let _ = read_bytes(&bytes);
            }
        }
    }
}

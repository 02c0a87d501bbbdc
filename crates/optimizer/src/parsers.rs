//! The parser of messages between ranks that hold shards, over bytes in memory. For `cargo xtask fuzz-parsers`, not part of the
//! interface.

use crate::tensor_file;

/// The optimizer state of a rank's shards; whether it is one.
pub fn shards_of_state(bytes: &[u8]) -> bool {
    tensor_file::decode_message(bytes).is_ok()
}

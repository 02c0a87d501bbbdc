//! The parsers of messages between ranks, over bytes in memory. For `cargo xtask fuzz-parsers`, not part of the interface.

use crate::ranks::RankCommand;

/// The next action of all ranks, as rank 0 sends it; whether it is one.
pub fn rank_command(bytes: &[u8]) -> bool {
    RankCommand::from_bytes(bytes).is_some()
}

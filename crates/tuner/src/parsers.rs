//! The parsers of what trials print, over bytes in memory. For `cargo xtask fuzz-parsers`, not part of the interface.

use crate::news::News;

/// Whether a line of a training tells a study anything.
pub fn news(line: &str) -> bool {
    News::read(line) != News::Other
}

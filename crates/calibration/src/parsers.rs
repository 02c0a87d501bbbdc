//! The parser of calibration files, over bytes in memory. For `cargo xtask fuzz-parsers`, not part of the interface.

use crate::Calibration;

/// A calibration; whether it is one.
pub fn calibration(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| Calibration::parse(text).is_ok())
}

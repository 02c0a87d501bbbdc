//! Faults on request: `CUDA_SIM_FAULTS` is a list such as `alloc-fails-at=100,copy-delay=5ms`.
//!
//! | fault | what happens |
//! |---|---|
//! | `oom-above=6GiB` | an allocation that would bring a card above this size fails with `CUDA_ERROR_OUT_OF_MEMORY` |
//! | `alloc-fails-at=N` | the N-th allocation of a card fails so, once |
//! | `launch-fails-at=N` | the N-th launch of a card ends its context: later calls answer `CUDA_ERROR_LAUNCH_FAILED` |
//! | `lost-at=N` | at the N-th launch the card is lost: later calls answer `CUDA_ERROR_UNKNOWN` |
//! | `compile-fails-at=N` | NVRTC does not compile the N-th kernel |
//! | `copy-delay=5ms` | each copy between host and card takes so much longer |
//! | `card=1` | the other faults hit only this card; NVRTC belongs to all cards |

use std::time::Duration;

use crate::settings::{SettingError, bytes, number};

/// The faults to inject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Most bytes that a card allocates.
    pub oom_above: Option<u64>,
    /// The allocation that fails, from 1.
    pub alloc_fails_at: Option<u64>,
    /// The launch that ends the context, from 1.
    pub launch_fails_at: Option<u64>,
    /// The launch at which the card is lost, from 1.
    pub lost_at: Option<u64>,
    /// The kernel that does not compile, from 1.
    pub compile_fails_at: Option<u64>,
    /// What each copy takes longer.
    pub copy_delay: Duration,
    /// The card that the faults hit; `None` for all.
    pub card: Option<usize>,
}

impl Faults {
    /// Reads the list.
    pub(crate) fn parse(text: &str) -> Result<Self, SettingError> {
        let mut faults = Self::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let unknown =
                || SettingError::new("CUDA_SIM_FAULTS", entry, "a fault and its value, as in `lost-at=100`");
            let (name, value) = entry.split_once('=').ok_or_else(unknown)?;
            match name {
                "oom-above" => faults.oom_above = Some(bytes("CUDA_SIM_FAULTS", value)?),
                "alloc-fails-at" => faults.alloc_fails_at = Some(number(value).ok_or_else(unknown)?),
                "launch-fails-at" => faults.launch_fails_at = Some(number(value).ok_or_else(unknown)?),
                "lost-at" => faults.lost_at = Some(number(value).ok_or_else(unknown)?),
                "compile-fails-at" => faults.compile_fails_at = Some(number(value).ok_or_else(unknown)?),
                "card" => faults.card = Some(number(value).ok_or_else(unknown)? as usize),
                "copy-delay" => {
                    let milliseconds = value.strip_suffix("ms").and_then(number).ok_or_else(unknown)?;
                    faults.copy_delay = Duration::from_millis(milliseconds);
                }
                _ => return Err(unknown()),
            }
        }
        Ok(faults)
    }

    /// What hits the card of that number.
    pub(crate) fn of(&self, card: usize) -> Self {
        if self.card.is_none_or(|wanted| wanted == card) { self.clone() } else { Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_faults_is_read() {
        let faults =
            Faults::parse("oom-above=6GiB, alloc-fails-at=100,compile-fails-at=3,copy-delay=5ms,card=1")
                .unwrap();
        assert_eq!(faults.oom_above, Some(6 << 30));
        assert_eq!(faults.alloc_fails_at, Some(100));
        assert_eq!(faults.compile_fails_at, Some(3));
        assert_eq!(faults.copy_delay, Duration::from_millis(5));
        assert_eq!(faults.of(0), Faults::default());
        assert_eq!(faults.of(1), faults);
    }

    #[test]
    fn a_fault_that_nobody_knows_is_refused() {
        for text in ["burns", "lost-at=soon", "copy-delay=5", "explodes=1"] {
            let error = Faults::parse(text).unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("CUDA_SIM_FAULTS"), "{error}");
        }
    }
}

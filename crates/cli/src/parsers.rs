//! The parsers of the command line and of child processes, over bytes in memory. For `cargo xtask fuzz-parsers`, not part
//! of the interface. Each returns whether it accepts the bytes.

use clap::Parser;

use crate::{
    arguments::Arguments,
    probe::message::{Message, Request},
};

/// The request to a child.
pub fn request(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Request>(bytes).is_ok()
}

/// A message of a child. The sums of a plan are part of reading it.
pub fn message(bytes: &[u8]) -> bool {
    let Ok(message) = serde_json::from_slice::<Message>(bytes) else { return false };
    if let Message::Planned(planned) = &message {
        let _ = planned.peak_bytes();
    }
    true
}

/// The request to the process of a trial.
pub fn trial_request(bytes: &[u8]) -> bool {
    serde_json::from_slice::<oomph_tuner::Request>(bytes).is_ok()
}

/// A command line, a word each line.
pub fn command_line(text: &str) -> bool {
    Arguments::try_parse_from(std::iter::once("oomph").chain(text.split('\n'))).is_ok()
}

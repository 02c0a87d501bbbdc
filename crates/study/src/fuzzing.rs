use std::path::Path;

use crate::{error::StudyError, journal::Log, state::StudyState};

/// What a journal in memory holds.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// Its first study.
    pub state: StudyState,
    /// How many bytes follow the last complete line.
    pub tail_bytes: u64,
}

/// Reads a journal in memory, as a study reads its file. For fuzzers: it never panics, and takes at most 64 times the memory
/// of its input and 1 MiB.
///
/// # Errors
/// A line is no record. The message names the file `journal`.
pub fn parse_journal(bytes: &[u8]) -> Result<Parsed, StudyError> {
    let mut state = StudyState::new("");
    let tail_bytes = Log::new(Path::new("journal")).read_from(bytes, |record| state.apply(record))?;
    Ok(Parsed { state, tail_bytes })
}

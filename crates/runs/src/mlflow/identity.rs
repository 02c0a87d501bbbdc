//! Which run of a store belongs to a run directory.

use std::{io::ErrorKind, path::Path};

use oomph_core::read_file;
use serde::{Deserialize, Serialize};

use super::META;
use crate::state::{StateError, sha256, write_file};

/// The file of the run directory that names the run in the store.
const FILE: &str = "mlflow.json";
/// Hexadecimal digits of a run's id.
const ID_DIGITS: usize = 32;

/// A run of a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) experiment_id: String,
    pub(super) run_id: String,
    /// When the run began, in milliseconds since 1970.
    pub(super) start_time: u64,
}

impl Identity {
    /// The run of `store` that this run directory wrote before, if it is still there.
    pub(super) fn read(directory: &Path, store: &Path) -> Result<Option<Self>, StateError> {
        let file = directory.join(FILE);
        let bytes = match read_file(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(StateError::io("read", &file))?,
        };
        // A damaged file names no run: a new one is begun.
        let identity = serde_json::from_slice::<Self>(&bytes).ok().filter(Self::is_sound);
        Ok(identity.filter(|it| store.join(&it.experiment_id).join(&it.run_id).join(META).is_file()))
    }

    /// A new run, which the run directory names from now on.
    pub(super) fn create(directory: &Path, experiment_id: String, now: u64) -> Result<Self, StateError> {
        let nanoseconds = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
        let unique = format!("{}:{}:{nanoseconds}", directory.display(), std::process::id());
        let mut run_id = sha256(unique.as_bytes());
        run_id.truncate(ID_DIGITS);
        let identity = Self { experiment_id, run_id, start_time: now };
        let text = format!("{:#}\n", serde_json::json!(identity));
        write_file(&directory.join(FILE), text.as_bytes())?;
        Ok(identity)
    }

    /// Whether the ids are names of folders and lead nowhere else.
    fn is_sound(&self) -> bool {
        let is_name = |id: &String| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_name(&self.experiment_id) && is_name(&self.run_id)
    }
}

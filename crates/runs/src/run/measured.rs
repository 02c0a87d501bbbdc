use std::path::Path;

use oomph_core::open_file;
use serde_json::Value;

use super::{
    RunError,
    directory::{METRICS, RunDirectory},
    log_lines::{Line, LineState, LogLines},
};
use crate::state::StateError;

impl RunDirectory {
    /// Tells what the processes of a run measured up to a step: the lines of its log that begin a process, measure a step or
    /// evaluate, in their order. What a kill repeated is told again. Torn and foreign lines are left out.
    ///
    /// # Errors
    /// The log cannot be read. A run that has logged nothing is no error.
    pub fn measured(path: &Path, until: usize, mut tell: impl FnMut(Value)) -> Result<(), RunError> {
        let path = path.join(METRICS);
        if !path.exists() {
            return Ok(());
        }
        let refused = || StateError::io("read", &path);
        let mut lines = LogLines::new(open_file(&path).map_err(refused())?);
        while let Some(Line { bytes, state, .. }) = lines.next().map_err(refused())? {
            let event = (state == LineState::Whole).then(|| serde_json::from_slice(&bytes).ok()).flatten();
            let event: Value = event.unwrap_or_default();
            let is_told = match event["event"].as_str() {
                Some("started") => true,
                Some("step" | "eval") => event["step"].as_u64().is_some_and(|step| step <= until as u64),
                _ => false,
            };
            if is_told {
                tell(event);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_up_to_a_step_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let told = |until| {
            let mut told = Vec::new();
            RunDirectory::measured(folder.path(), until, |event| told.push(event.to_string())).unwrap();
            told
        };
        assert!(told(9).is_empty());
        let lines = [
            r#"{"event":"started","steps":9}"#,
            r#"{"event":"step","step":3}"#,
            r#"{"event":"warning","message":"no"}"#,
            "no event",
            r#"{"eval_loss":0.5,"event":"eval","step":4}"#,
            r#"{"event":"step","step":6}"#,
            r#"{"event":"started","steps":9}"#,
            r#"{"event":"step","step":6"#,
        ];
        std::fs::write(folder.path().join(METRICS), lines.join("\n")).unwrap();
        assert_eq!(told(4), [lines[0], lines[1], lines[4], lines[6]]);
        assert_eq!(told(2), [lines[0], lines[6]]);
        assert_eq!(told(6).len(), 5);
    }
}

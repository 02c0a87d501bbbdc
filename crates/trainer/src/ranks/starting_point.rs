use std::path::{Path, PathBuf};

use oomph_engine::{EngineError, ranks::Replicas, session::Session};
use oomph_runs::state::Checkpoint;

use crate::TrainError;

/// Where rank 0 has all ranks start.
pub(super) struct StartingPoint {
    /// The checkpoint to resume from; `None` for a new model.
    pub(super) checkpoint: Option<PathBuf>,
    /// The directory of rank 0's out-of-memory report. Other ranks write beside it. `None` for no reports.
    pub(super) report: Option<PathBuf>,
}

/// Broadcasts from rank 0 where all ranks start, and the directory of the out-of-memory report.
pub(crate) fn broadcast_start(
    session: &Session,
    checkpoint: Option<&Checkpoint>,
    report: Option<&Path>,
) -> Result<(), TrainError> {
    if session.replicas.is_alone() {
        return Ok(());
    }
    for path in [checkpoint.map(Checkpoint::path), report] {
        let path = path.map(|path| path.display().to_string());
        session.replicas.broadcast_text(path.as_deref())?;
    }
    Ok(())
}

impl StartingPoint {
    /// Receives the broadcast of rank 0.
    pub(super) fn receive(replicas: &Replicas) -> Result<Self, EngineError> {
        let path = || -> Result<Option<PathBuf>, EngineError> {
            let path = replicas.broadcast_text(None)?;
            Ok(Some(path).filter(|path| !path.is_empty()).map(PathBuf::from))
        };
        Ok(Self { checkpoint: path()?, report: path()? })
    }
}

use std::path::{Path, PathBuf};

use oomph_engine::{
    EngineError,
    ranks::{Replicas, waiting},
    session::Session,
};
use oomph_memory::{Account, charge};
use oomph_runs::state::Checkpoint;
use serde::{Deserialize, Serialize};

use crate::TrainError;

/// The next action of all ranks, sent by rank 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RankCommand {
    /// Train on the next batch. Where ranks hold shards, they sum norms together.
    Step {
        /// The learning rate.
        lr: StepLr,
        /// Whether to measure the norms of the step.
        norms: bool,
    },
    /// Train on the last batch of an epoch, for a rehearsal.
    LastBatch,
    /// Sum the losses of the steps since the last reading.
    Losses,
    /// Sum the loss of each step since the last reading.
    EachLoss,
    /// Evaluate at most so many batches, with the running statistics of rank 0.
    Evaluate(usize),
    /// Send the carried state to rank 0.
    Carried,
    /// Send the shards of the state to rank 0.
    State,
    /// Compare the parameters.
    Check,
    /// Nothing. Rank 0 continues when all ranks have received the command.
    Wait,
    /// Training is over.
    End,
}

/// The learning rate of a step: the bits of a number, which every encoding keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StepLr(u64);

impl From<f64> for StepLr {
    fn from(lr: f64) -> Self {
        Self(lr.to_bits())
    }
}

impl StepLr {
    pub(crate) fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl RankCommand {
    fn bytes(self) -> Vec<u8> {
        // An enum of numbers always has a JSON text.
        charge(Account::Host, || serde_json::to_vec(&self).expect("a command is a name and numbers"))
    }

    /// `None` for the commands of another version of oomph.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

/// Sends a command from rank 0 to the other ranks.
///
/// # Errors
/// Where another rank failed.
pub(crate) fn command(replicas: &Replicas, command: RankCommand) -> Result<(), EngineError> {
    if replicas.is_alone() {
        return Ok(());
    }
    let _track = waiting();
    replicas.group().broadcast(0, command.bytes())?;
    Ok(())
}

/// Receives the next command of rank 0.
///
/// # Errors
/// Where another rank failed, or rank 0 runs another version of oomph.
pub(super) fn next_command(replicas: &Replicas) -> Result<RankCommand, EngineError> {
    let waiting = waiting();
    let bytes = replicas.group().broadcast(0, Vec::new())?;
    drop(waiting);
    RankCommand::from_bytes(&bytes).ok_or(EngineError::OtherVersion { rank: replicas.rank() })
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

/// Receives the broadcast of rank 0: the checkpoint to resume from, or `None` for a new model; and the directory of rank
/// 0's out-of-memory report, or `None` for no reports. Other ranks write beside it.
pub(super) fn received_start(replicas: &Replicas) -> Result<[Option<PathBuf>; 2], EngineError> {
    let path = || -> Result<Option<PathBuf>, EngineError> {
        let path = replicas.broadcast_text(None)?;
        Ok(Some(path).filter(|path| !path.is_empty()).map(PathBuf::from))
    };
    Ok([path()?, path()?])
}

#[cfg(test)]
mod tests {
    use super::{RankCommand::*, *};

    #[test]
    fn commands_survive_encoding() {
        let step = |norms| Step { lr: 0.1.into(), norms };
        let plain = [step(false), step(true), LastBatch, Losses, EachLoss, Carried, State, Check, Wait, End];
        for command in plain.into_iter().chain([Evaluate(0), Evaluate(2), Evaluate(usize::MAX)]) {
            assert_eq!(RankCommand::from_bytes(&command.bytes()), Some(command));
        }
        assert_eq!(RankCommand::from_bytes(&[]), None);
        assert_eq!(RankCommand::from_bytes(&[77]), None);
    }
}

use oomph_engine::{
    EngineError,
    ranks::{Replicas, waiting},
};

/// The next action of all ranks, sent by rank 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RankCommand {
    /// Train on the next batch.
    Step,
    /// Train on the last batch of an epoch, for a rehearsal.
    LastBatch,
    /// Sum the losses of the steps since the last reading.
    Losses,
    /// Evaluate, with the running statistics of rank 0.
    Evaluate,
    /// Evaluate the first batches only. Rank 0 broadcasts their number.
    Glance,
    /// Send the carried state to rank 0.
    Carried,
    /// Compare the parameters.
    Check,
    /// Nothing. Rank 0 continues when all ranks have received the command.
    Wait,
    /// Training is over.
    End,
}

impl RankCommand {
    const ALL: [Self; 9] = [
        Self::Step,
        Self::LastBatch,
        Self::Losses,
        Self::Evaluate,
        Self::Glance,
        Self::Carried,
        Self::Check,
        Self::Wait,
        Self::End,
    ];

    fn bytes(self) -> Vec<u8> {
        vec![self as u8]
    }

    /// `None` for the commands of another version of oomph.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|command| command.bytes() == bytes)
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

/// Has the other ranks evaluate their rows of the first `batches` batches.
///
/// # Errors
/// Where another rank failed.
pub(crate) fn command_glance(replicas: &Replicas, batches: usize) -> Result<(), EngineError> {
    command(replicas, RankCommand::Glance)?;
    if !replicas.is_alone() {
        replicas.broadcast_text(Some(&batches.to_string()))?;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_survive_encoding() {
        for command in RankCommand::ALL {
            assert_eq!(RankCommand::from_bytes(&command.bytes()), Some(command));
        }
        assert_eq!(RankCommand::from_bytes(&[]), None);
        assert_eq!(RankCommand::from_bytes(&[77]), None);
    }
}

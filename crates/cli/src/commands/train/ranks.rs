//! `oomph train` in several processes: rank 0 leads, writes and prints; the other ranks follow.

use std::{sync::Arc, thread::sleep, time::Duration};

use oomph_config::Config;
use oomph_engine::EngineError;
use oomph_parallel::group::{Group, GroupError, Member, MpiGroup, Refusal, agree, mpi_group};
use oomph_trainer::{RankProcess, Registry, Stop, TrainError, follow, open_together};

use super::{TrainArguments, lead};
use crate::{error::CliError, exit::Exit, failure, ranks::TIMEOUT, signals};

/// Why a rank ends early.
enum Failure {
    /// All ranks know of the failure and end together. A rank that reports an error has `Some`; the other ranks have `None` and report nothing.
    Agreed(Option<CliError>),
    /// The other ranks do not know of the failure, and may be waiting.
    Broken(CliError),
}

/// How long other ranks wait after their report, so that rank 0 can print its own.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// How long a rank waits for another one to end all ranks, before it ends them itself.
const GRACE: Duration = Duration::from_secs(30);

/// Trains as the rank of this process. `launched` is the number of processes that the launcher reports.
pub(super) fn run(
    arguments: &TrainArguments,
    registry: &Registry,
    launched: usize,
) -> Result<Exit, CliError> {
    let loaded = arguments.load();
    let timeout = loaded.as_ref().map_or(TIMEOUT, |config| config.device.timeout);
    let group = Arc::new(mpi_group(Some(timeout)).map_err(TrainError::from)?);
    if group.world_size() != launched {
        return Err(CliError::Launcher { launched, found: group.world_size() });
    }
    match part(arguments, registry, &group, loaded) {
        Ok(exit) => match group.close() {
            Ok(()) => Ok(exit),
            // MPI cannot end the other ranks any more. The launcher does, once this process fails.
            Err(error) => Ok(report(&group, TrainError::from(error).into(), arguments.json)),
        },
        Err(Failure::Agreed(None)) => Ok(Exit::Failure),
        // Reported before this process exits: the launcher ends all ranks once the first one fails.
        Err(Failure::Agreed(Some(error))) => Ok(report(&group, error, arguments.json)),
        Err(Failure::Broken(error)) => end(&group, error, arguments.json),
    }
}

fn part(
    arguments: &TrainArguments,
    registry: &Registry,
    group: &Arc<MpiGroup>,
    loaded: Result<Config, CliError>,
) -> Result<Exit, Failure> {
    let is_first = group.rank() == 0;
    // Only rank 0 shows downloads.
    let registry = match is_first {
        true => registry.clone(),
        false => registry.clone().with_open_observer(|_| ()),
    };
    let config = agree(&**group, loaded)?;
    let process = RankProcess::new(group.clone(), group.local_rank(), group.local_size());
    let session = open_together(config, &registry, &process.map_err(broken)?)?;
    let exit = if is_first {
        lead(arguments, &session, None)?
    } else {
        let stop = Stop::new();
        signals::listen(&stop, None)?;
        follow(&session, &stop).map_err(CliError::from)?;
        Exit::Success
    };
    // All is saved. A rank that hangs from here on would keep the others, and is told as any other is.
    group.finish().map_err(broken)?;
    Ok(exit)
}

/// Prints an error as this rank's, and returns the exit code.
fn report(group: &MpiGroup, error: CliError, json: bool) -> Exit {
    let rank = group.rank();
    let error = match rank {
        0 => error,
        rank => {
            let host = group.host(rank).map(Arc::from);
            CliError::Rank { rank: Member { rank, host }, source: Box::new(error) }
        }
    };
    failure::report(&error, json && rank == 0);
    error.exit()
}

/// Ends all ranks, also those that hang.
fn end(group: &MpiGroup, error: CliError, json: bool) -> ! {
    let exit = error.exit() as i32;
    match &error {
        CliError::Train(TrainError::Engine(EngineError::Group(of_group))) => {
            let is_elsewhere = matches!(of_group, GroupError::Aborted { .. });
            if reports(group.rank(), of_group) {
                report(group, error, json);
                // The rank that gave up ends all ranks, with its own exit code.
                sleep(if is_elsewhere { GRACE } else { Duration::ZERO });
            } else {
                sleep(GRACE);
            }
        }
        _ => {
            group.abort(&error.to_string());
            report(group, error, json);
            sleep(if group.rank() == 0 { Duration::ZERO } else { LAST_WORDS });
        }
    }
    group.terminate(exit)
}

/// Whether this rank reports an error that all ranks have: the first rank that did not cause it does.
fn reports(rank: usize, error: &GroupError) -> bool {
    let is_blamed = |rank: usize| match error {
        GroupError::Timeout { missing, .. } => missing.iter().any(|member| member.rank == rank),
        GroupError::Gone { rank: gone, .. } => gone.rank == rank,
        _ => false,
    };
    !is_blamed(rank) && (0..rank).all(is_blamed)
}

fn broken(error: GroupError) -> Failure {
    Failure::Broken(TrainError::from(error).into())
}

impl<E: std::error::Error + Into<CliError>> From<Refusal<E>> for Failure {
    fn from(refusal: Refusal<E>) -> Self {
        match refusal {
            Refusal::Own(error) => Self::Agreed(Some(error.into())),
            Refusal::Reported => Self::Agreed(None),
            Refusal::Group(error) => broken(error),
        }
    }
}

impl From<CliError> for Failure {
    fn from(error: CliError) -> Self {
        match error {
            // Before or during the training.
            CliError::Train(_) | CliError::Signals(_) => Self::Broken(error),
            // After the training, when ranks no longer depend on each other.
            error => Self::Agreed(Some(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use oomph_parallel::group::{Exchange, Operation};

    use super::*;

    fn member(rank: usize) -> Member {
        Member { rank, host: None }
    }

    #[test]
    fn exactly_one_rank_reports_an_error_of_the_group() {
        let operation = Operation::Exchange(Exchange::Barrier);
        let late = |ranks: &[usize]| GroupError::Timeout {
            missing: ranks.iter().map(|rank| member(*rank)).collect(),
            operation,
            number: 3,
            waited: Duration::from_secs(1),
        };
        let first = |error: &GroupError| (0..4).find(|rank| reports(*rank, error));
        let all = |error: &GroupError| (0..4).filter(|rank| reports(*rank, error)).count();
        assert_eq!(first(&late(&[3])), Some(0));
        assert_eq!(all(&late(&[3])), 1);
        assert_eq!((first(&late(&[0, 1])), all(&late(&[0, 1]))), (Some(2), 1));
        let gone = GroupError::Gone { rank: member(0), operation, number: 3 };
        assert_eq!((first(&gone), all(&gone)), (Some(1), 1));
        // A rank that gives up reports its own reason.
        let aborted = GroupError::Aborted { rank: member(0), reason: "full".into() };
        assert_eq!(all(&aborted), 1);
    }
}

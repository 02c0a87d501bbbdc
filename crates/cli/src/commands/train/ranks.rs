//! `oomph train` as one of several processes: rank 0 trains, writes and prints, the others follow.

use std::{sync::Arc, thread::sleep, time::Duration};

use oomph_config::Config;
use oomph_parallel::group::{Group, GroupError, Member, MpiGroup, Refusal, agree, mpi_group};
use oomph_trainer::{Process, Registry, Session, Stop, TrainError, follow};

use super::{TrainArguments, lead};
use crate::{error::CliError, exit::Exit, failure, ranks::TIMEOUT, signals};

/// Why a rank ends early.
enum Failure {
    /// All ranks know that some cannot go on, and end together. The error, where it is this rank that tells.
    Agreed(Option<CliError>),
    /// The others cannot go on, and may wait.
    Broken(CliError),
}

/// How long a rank that is not 0 waits after its last words, so that rank 0 can say its own.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// How long a rank waits to be ended by the one that is to end all, before it does so itself.
const GRACE: Duration = Duration::from_secs(30);

/// Trains as the rank that this process is. `launched` is how many the launcher says that there are.
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
        Ok(exit) => Ok(exit),
        Err(Failure::Agreed(None)) => Ok(Exit::Failure),
        // Said before the group is left: the launcher ends all with the first process that fails.
        Err(Failure::Agreed(Some(error))) => Ok(tell(&group, error, arguments.json)),
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
    // The others would draw the same bars.
    let registry = match is_first {
        true => registry.clone(),
        false => registry.clone().with_open_observer(|_| ()),
    };
    let config = agree(&**group, loaded)?;
    let process = Process::new(group.clone(), group.local_rank(), group.local_size());
    let session = Session::open_together(config, &registry, &process.map_err(broken)?)?;
    if is_first {
        return Ok(lead(arguments, &session, None)?);
    }
    let stop = Stop::new();
    signals::listen(&stop, None)?;
    follow(&session, &stop).map_err(CliError::from)?;
    Ok(Exit::Success)
}

/// Says it as this rank, and how the program ends with it.
fn tell(group: &MpiGroup, error: CliError, json: bool) -> Exit {
    let rank = group.rank();
    let error = match rank {
        0 => error,
        rank => {
            let host = group.host(rank).map(Arc::from);
            CliError::Rank { rank: Member { rank, host }, source: Box::new(error) }
        }
    };
    failure::report(&error, error.hint(), error.out_of_memory(), json && rank == 0);
    error.exit()
}

/// Ends all ranks, those that hang too.
fn end(group: &MpiGroup, error: CliError, json: bool) -> ! {
    let exit = error.exit() as i32;
    match &error {
        CliError::Train(TrainError::Group(of_group)) => {
            let is_elsewhere = matches!(of_group, GroupError::Aborted { .. });
            if tells(group.rank(), of_group) {
                tell(group, error, json);
                // With the exit code of the rank that gave up.
                sleep(if is_elsewhere { GRACE } else { Duration::ZERO });
            } else {
                sleep(GRACE);
            }
        }
        _ => {
            group.abort(&error.to_string());
            tell(group, error, json);
            sleep(if group.rank() == 0 { Duration::ZERO } else { LAST_WORDS });
        }
    }
    group.terminate(exit)
}

/// Whether it is this rank that tells of an error of the group, which all have: the first that is not to blame.
fn tells(rank: usize, error: &GroupError) -> bool {
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
            Refusal::Told => Self::Agreed(None),
            Refusal::Group(error) => broken(error),
        }
    }
}

impl From<CliError> for Failure {
    fn from(error: CliError) -> Self {
        match error {
            // Before training, or in it.
            CliError::Train(_) | CliError::Signals(_) => Self::Broken(error),
            // After it, when no rank needs another any more.
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
    fn one_rank_tells_of_an_error_of_the_group() {
        let operation = Operation::Exchange(Exchange::Barrier);
        let late = |ranks: &[usize]| GroupError::Timeout {
            missing: ranks.iter().map(|rank| member(*rank)).collect(),
            operation,
            number: 3,
            waited: Duration::from_secs(1),
        };
        let telling = |error: &GroupError| (0..4).find(|rank| tells(*rank, error));
        let all = |error: &GroupError| (0..4).filter(|rank| tells(*rank, error)).count();
        assert_eq!(telling(&late(&[3])), Some(0));
        assert_eq!(all(&late(&[3])), 1);
        assert_eq!((telling(&late(&[0, 1])), all(&late(&[0, 1]))), (Some(2), 1));
        let gone = GroupError::Gone { rank: member(0), operation, number: 3 };
        assert_eq!((telling(&gone), all(&gone)), (Some(1), 1));
        // Who gives up says why itself.
        let aborted = GroupError::Aborted { rank: member(0), reason: "full".into() };
        assert_eq!(all(&aborted), 1);
    }
}

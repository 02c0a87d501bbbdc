use std::{fmt, io, sync::Arc, time::Duration};

/// A collective as one rank requests it. All ranks must request the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A sum of `f32` values.
    AllReduce {
        /// The number of values.
        length: usize,
    },
    /// A sum of `f32` values, of which each rank receives its own share.
    ReduceScatter {
        /// The number of values that each rank gives.
        length: usize,
    },
    /// Every rank gets the `f32` values of all.
    GatherValues,
    /// A collective made of bytes.
    Exchange(Exchange),
}

/// The purpose of an exchange of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// A sum of `f64` values.
    AllReduce {
        /// The number of values.
        length: usize,
    },
    /// Every rank gets the bytes of all.
    AllGather,
    /// Every rank gets the bytes of one.
    Broadcast {
        /// The rank that sends the bytes.
        root: usize,
    },
    /// Every rank waits for all.
    Barrier,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllReduce { length } => write!(f, "an all-reduce of {length} values"),
            Self::ReduceScatter { length } => write!(f, "a reduce-scatter of {length} values"),
            Self::GatherValues => f.write_str("an all-gather of values"),
            Self::Exchange(Exchange::AllReduce { length }) => {
                write!(f, "an all-reduce of {length} f64 values")
            }
            Self::Exchange(Exchange::AllGather) => f.write_str("an all-gather"),
            Self::Exchange(Exchange::Broadcast { root }) => write!(f, "a broadcast from rank {root}"),
            Self::Exchange(Exchange::Barrier) => f.write_str("a barrier"),
        }
    }
}

/// A rank and its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub rank: usize,
    /// The machine's name from MPI; `None` for threads of this process.
    pub host: Option<Arc<str>>,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}", self.rank)?;
        self.host.as_ref().map_or(Ok(()), |host| write!(f, " on `{host}`"))
    }
}

/// Why a collective failed. All later collectives of the group fail in the same way.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GroupError {
    /// A rank aborted: by [`abort`](super::Group::abort), by a panic, or because its own collective failed.
    #[error("{rank} aborted: {reason}")]
    Aborted {
        /// The rank.
        rank: Member,
        /// Its reason.
        reason: String,
    },
    /// A rank left before the others were done.
    #[error("{rank} left before {operation}, collective {number} of the others")]
    Gone {
        /// The rank.
        rank: Member,
        /// The collective that the others began without it.
        operation: Operation,
        /// The number of that collective in the group, from 1.
        number: u64,
    },
    /// Ranks did not join in time, or stopped in the middle of a collective.
    #[error("{} did not join {operation}, collective {number}, within {waited:?}", list(missing))]
    Timeout {
        /// The missing ranks, in order.
        missing: Vec<Member>,
        /// The collective.
        operation: Operation,
        /// Its number in the group, from 1.
        number: u64,
        /// The time limit.
        waited: Duration,
    },
    /// The ranks requested different collectives at the same point.
    #[error("the ranks request different operations as collective {number}: {}", answers(asked))]
    Mismatch {
        /// Its number in the group, from 1.
        number: u64,
        /// The request of each rank, in the order of ranks.
        asked: Vec<Operation>,
    },
    /// A broadcast from a rank that does not exist.
    #[error("there is no rank {root} to broadcast from: the world size is {world_size}")]
    NoSuchRank {
        /// The requested rank.
        root: usize,
        /// The number of ranks.
        world_size: usize,
    },
    /// The thread that moves the values could not be started.
    #[error("the thread that moves values between ranks cannot be started")]
    NoThread {
        /// The error of the system.
        #[source]
        source: Arc<io::Error>,
    },
    /// The thread that moves the values panicked.
    #[error("the thread that moves values between ranks panicked")]
    ThreadDied,
    /// The ranks did not meet.
    #[error("MPI did not start all ranks within {waited:?}; one of them may hang")]
    NotStarted {
        /// The time limit.
        waited: Duration,
    },
    /// All ranks had nothing more to do, and the MPI library waits for one of them.
    #[error("MPI did not end all ranks within {waited:?}; one of them may hang")]
    NotEnded {
        /// The time limit.
        waited: Duration,
    },
    /// MPI can be initialised only once per process.
    #[error("MPI is already initialised in this process")]
    MpiInitialized,
    /// This MPI library does not support programs with threads.
    #[error("this MPI library was built without support for threads")]
    MpiWithoutThreads,
}

/// "rank 1, rank 3 on `b`".
fn list(members: &[Member]) -> String {
    members.iter().map(Member::to_string).collect::<Vec<_>>().join(", ")
}

/// "ranks 0, 2: a barrier; rank 1: an all-gather", each answer once.
fn answers(asked: &[Operation]) -> String {
    let mut told: Vec<Operation> = Vec::new();
    let mut parts = Vec::new();
    for &operation in asked {
        if told.contains(&operation) {
            continue;
        }
        told.push(operation);
        let ranks: Vec<_> = asked.iter().zip(0..).filter(|(other, _)| **other == operation).collect();
        let numbers: Vec<_> = ranks.iter().map(|(_, rank): &(_, usize)| rank.to_string()).collect();
        let noun = if numbers.len() == 1 { "rank" } else { "ranks" };
        parts.push(format!("{noun} {}: {operation}", numbers.join(", ")));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mismatch_tells_each_answer_once_with_its_ranks() {
        let barrier = Operation::Exchange(Exchange::Barrier);
        let asked = vec![barrier, Operation::AllReduce { length: 5 }, barrier];
        assert_eq!(
            GroupError::Mismatch { number: 3, asked }.to_string(),
            "the ranks request different operations as collective 3: ranks 0, 2: a barrier; rank 1: an all-reduce of 5 values"
        );
    }

    #[test]
    fn a_timeout_names_ranks_and_their_machines() {
        let missing = vec![Member { rank: 1, host: None }, Member { rank: 3, host: Some("node7".into()) }];
        let waited = Duration::from_secs(30);
        let operation = Operation::Exchange(Exchange::Barrier);
        let error = GroupError::Timeout { missing, operation, number: 17, waited };
        assert_eq!(
            error.to_string(),
            "rank 1, rank 3 on `node7` did not join a barrier, collective 17, within 30s"
        );
    }
}

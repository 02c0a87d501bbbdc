use std::{fmt, io, sync::Arc, time::Duration};

/// A collective, as one rank asked for it. All ranks must ask for the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A sum of `f32` values.
    AllReduce {
        /// How many values.
        length: usize,
    },
    /// A collective made of bytes.
    Exchange(Exchange),
}

/// What bytes are exchanged for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// A sum of `f64` values.
    AllReduce {
        /// How many values.
        length: usize,
    },
    /// Every rank gets the bytes of all.
    AllGather,
    /// Every rank gets the bytes of one.
    Broadcast {
        /// Whose bytes.
        root: usize,
    },
    /// Every rank waits for all.
    Barrier,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllReduce { length } => write!(f, "an all-reduce of {length} values"),
            Self::Exchange(Exchange::AllReduce { length }) => {
                write!(f, "an all-reduce of {length} f64 values")
            }
            Self::Exchange(Exchange::AllGather) => f.write_str("an all-gather"),
            Self::Exchange(Exchange::Broadcast { root }) => write!(f, "a broadcast from rank {root}"),
            Self::Exchange(Exchange::Barrier) => f.write_str("a barrier"),
        }
    }
}

/// A rank, and the machine it runs on where that may be another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub rank: usize,
    /// The machine's name, as MPI tells it.
    pub host: Option<Arc<str>>,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}", self.rank)?;
        match &self.host {
            Some(host) => write!(f, " on `{host}`"),
            None => Ok(()),
        }
    }
}

/// Why a collective failed. A group that failed once answers the same to everything that follows.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GroupError {
    /// A rank gave up, by [`abort`](super::Group::abort), by a panic, or because its own collective failed.
    #[error("{rank} gave up: {reason}")]
    Aborted {
        /// Who.
        rank: Member,
        /// What it said.
        reason: String,
    },
    /// A rank left before the others were done.
    #[error("{rank} left before {operation}, collective {number} of the others")]
    Gone {
        /// Who.
        rank: Member,
        /// What the others began without it.
        operation: Operation,
        /// How many collectives they began before, and one.
        number: u64,
    },
    /// Ranks did not come in time, or stood still on the way.
    #[error("{} did not come to {operation}, collective {number}, within {waited:?}", list(missing))]
    Timeout {
        /// Who, in the order of ranks.
        missing: Vec<Member>,
        /// What they were waited for with.
        operation: Operation,
        /// Which collective of the group it is, from 1.
        number: u64,
        /// The time limit.
        waited: Duration,
    },
    /// The ranks asked for different things at the same place of the program.
    #[error("the ranks ask for different things as collective {number}: {}", answers(asked))]
    Mismatch {
        /// Which collective of the group it is, from 1.
        number: u64,
        /// What each rank asked for, in the order of ranks.
        asked: Vec<Operation>,
    },
    /// A broadcast names a rank that there is not.
    #[error("there is no rank {root} to broadcast from: the world size is {world_size}")]
    NoSuchRank {
        /// The rank that was named.
        root: usize,
        /// How many there are.
        world_size: usize,
    },
    /// The thread that moves the values could not be started.
    #[error("the thread that moves values between ranks cannot be started")]
    NoThread {
        /// What the system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// The thread that moves the values ended by a panic.
    #[error("the thread that moves values between ranks ended by a panic")]
    ThreadDied,
    /// MPI can be initialised once in a process, and was.
    #[error("MPI was initialised before in this process")]
    MpiInitialized,
    /// This MPI library cannot be used in a program that has threads.
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
            "the ranks ask for different things as collective 3: ranks 0, 2: a barrier; rank 1: an all-reduce of 5 values"
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
            "rank 1, rank 3 on `node7` did not come to a barrier, collective 17, within 30s"
        );
    }
}

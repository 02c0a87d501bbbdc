//! Messages between ranks that are processes, beside values.

use std::{sync::Arc, time::Duration};

use super::{Exchange, GroupError, Member, Operation};

/// The first message of a rank in a collective: the operation and the number of bytes that this rank contributes.
pub(crate) type Header = [u64; 3];

pub(crate) fn header(operation: Operation, bytes: usize) -> Header {
    let (code, detail) = match operation {
        Operation::AllReduce { length } => (0, length),
        Operation::Exchange(Exchange::AllReduce { length }) => (1, length),
        Operation::Exchange(Exchange::AllGather) => (2, 0),
        Operation::Exchange(Exchange::Broadcast { root }) => (3, root),
        Operation::Exchange(Exchange::Barrier) => (4, 0),
        Operation::ReduceScatter { length } => (5, length),
        Operation::GatherValues => (6, 0),
    };
    [code, detail as u64, bytes as u64]
}

/// Ranks run the same program, so only the codes of [`header`] occur.
pub(crate) fn operation([code, detail, _]: Header) -> Operation {
    let detail = detail as usize;
    match code {
        0 => Operation::AllReduce { length: detail },
        1 => Operation::Exchange(Exchange::AllReduce { length: detail }),
        2 => Operation::Exchange(Exchange::AllGather),
        3 => Operation::Exchange(Exchange::Broadcast { root: detail }),
        5 => Operation::ReduceScatter { length: detail },
        6 => Operation::GatherValues,
        _ => Operation::Exchange(Exchange::Barrier),
    }
}

/// The ranks of the job and where they run.
#[derive(Debug, Clone)]
pub(crate) struct Hosts(pub(crate) Vec<Arc<str>>);

impl Hosts {
    pub(crate) fn member(&self, rank: usize) -> Member {
        Member { rank, host: self.0.get(rank).cloned() }
    }
}

/// The last message of a rank that joins no more collectives.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// It has ended, after this number of collectives.
    Done(u64),
    /// It aborts for its own reason.
    GaveUp(String),
    /// A collective failed because of other ranks: they left, or did not join within `waited_ms`.
    Missed { ranks: Vec<usize>, operation: Operation, number: u64, waited_ms: Option<u64> },
}

impl Farewell {
    /// The farewell of a rank after `error`. `None` where the others know the error already.
    pub(crate) fn after(error: &GroupError, own_rank: usize) -> Option<Self> {
        let (ranks, &operation, &number, waited_ms) = match error {
            GroupError::Aborted { rank, reason } if rank.rank == own_rank => {
                return Some(Self::GaveUp(reason.clone()));
            }
            GroupError::Gone { rank, operation, number } => (vec![rank.rank], operation, number, None),
            GroupError::Timeout { missing, operation, number, waited } => {
                let ranks = missing.iter().map(|member| member.rank).collect();
                (ranks, operation, number, Some(waited.as_millis() as u64))
            }
            _ => return None,
        };
        Some(Self::Missed { ranks, operation, number, waited_ms })
    }

    /// The error that this farewell from the rank `from` causes; `None` if it is no failure.
    pub(crate) fn error(self, from: usize, hosts: &Hosts) -> Option<GroupError> {
        let (ranks, operation, number, waited_ms) = match self {
            Self::Done(_) => return None,
            Self::GaveUp(reason) => return Some(GroupError::Aborted { rank: hosts.member(from), reason }),
            Self::Missed { ranks, operation, number, waited_ms } => (ranks, operation, number, waited_ms),
        };
        let mut missing: Vec<_> = ranks.into_iter().map(|rank| hosts.member(rank)).collect();
        match waited_ms.map(Duration::from_millis) {
            Some(waited) => Some(GroupError::Timeout { missing, operation, number, waited }),
            None => missing.pop().map(|rank| GroupError::Gone { rank, operation, number }),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, words) = match self {
            Self::GaveUp(reason) => return [&[0], reason.as_bytes()].concat(),
            Self::Done(collectives) => (1, vec![*collectives]),
            Self::Missed { ranks, operation, number, waited_ms } => {
                let [code, detail, _] = header(*operation, 0);
                let head = [code, detail, *number, waited_ms.unwrap_or(u64::MAX)];
                (2, head.into_iter().chain(ranks.iter().map(|rank| *rank as u64)).collect())
            }
        };
        std::iter::once(kind).chain(words.into_iter().flat_map(u64::to_le_bytes)).collect()
    }

    /// Ranks run the same program, so other bytes than those of [`Self::encode`] do not occur.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let Some((kind, rest)) = bytes.split_first() else { return Self::GaveUp(String::new()) };
        let words: Vec<_> = rest.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        match (kind, &words[..]) {
            (1, [collectives]) => Self::Done(*collectives),
            (2, &[code, detail, number, waited, ref ranks @ ..]) => Self::Missed {
                ranks: ranks.iter().map(|rank| *rank as usize).collect(),
                operation: operation([code, detail, 0]),
                number,
                waited_ms: (waited != u64::MAX).then_some(waited),
            },
            _ => Self::GaveUp(String::from_utf8_lossy(rest).into_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_tell_operations_apart() {
        for asked in [
            Operation::AllReduce { length: 3 },
            Operation::Exchange(Exchange::AllReduce { length: 4 }),
            Operation::Exchange(Exchange::AllGather),
            Operation::Exchange(Exchange::Broadcast { root: 2 }),
            Operation::Exchange(Exchange::Barrier),
            Operation::ReduceScatter { length: 5 },
            Operation::GatherValues,
        ] {
            assert_eq!(operation(header(asked, 7)), asked);
        }
    }

    #[test]
    fn farewells_are_read_as_they_were_written() {
        let operation = Operation::AllReduce { length: 9 };
        for said in [
            Farewell::Done(300),
            Farewell::GaveUp("out of memory".into()),
            Farewell::Missed { ranks: vec![3], operation, number: 8, waited_ms: None },
            Farewell::Missed { ranks: vec![3, 5], operation, number: 8, waited_ms: Some(1500) },
        ] {
            assert_eq!(Farewell::decode(&said.encode()), said);
        }
    }

    #[test]
    fn a_failure_reaches_other_ranks_as_it_was() {
        let hosts = Hosts(["a", "b", "b"].map(Arc::from).to_vec());
        let operation = Operation::Exchange(Exchange::Barrier);
        let waited = Duration::from_millis(2500);
        for error in [
            GroupError::Aborted { rank: hosts.member(1), reason: "out of memory".into() },
            GroupError::Gone { rank: hosts.member(2), operation, number: 4 },
            GroupError::Timeout { missing: vec![hosts.member(0)], operation, number: 4, waited },
        ] {
            let told = Farewell::after(&error, 1).unwrap().error(1, &hosts).unwrap();
            assert_eq!(told.to_string(), error.to_string());
        }
        let heard = GroupError::Aborted { rank: hosts.member(0), reason: "out of memory".into() };
        assert_eq!(Farewell::after(&heard, 1), None);
    }
}

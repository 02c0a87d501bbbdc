//! What ranks tell each other beside values.

use std::sync::Arc;

use crate::group::{Exchange, GroupError, Member, Operation};

/// What a rank says when it comes to a collective: what it is, and how many bytes this rank brings to it.
pub(super) type Header = [u64; 3];

pub(super) fn header(operation: Operation, bytes: usize) -> Header {
    let (code, detail) = match operation {
        Operation::AllReduce { length } => (0, length),
        Operation::Exchange(Exchange::AllReduce { length }) => (1, length),
        Operation::Exchange(Exchange::AllGather) => (2, 0),
        Operation::Exchange(Exchange::Broadcast { root }) => (3, root),
        Operation::Exchange(Exchange::Barrier) => (4, 0),
    };
    [code, detail as u64, bytes as u64]
}

/// Ranks run the same program, so there are no other codes than those of [`header`].
pub(super) fn operation([code, detail, _]: Header) -> Operation {
    let detail = detail as usize;
    match code {
        0 => Operation::AllReduce { length: detail },
        1 => Operation::Exchange(Exchange::AllReduce { length: detail }),
        2 => Operation::Exchange(Exchange::AllGather),
        3 => Operation::Exchange(Exchange::Broadcast { root: detail }),
        _ => Operation::Exchange(Exchange::Barrier),
    }
}

/// What a rank says that comes to no more collectives.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Farewell {
    /// It is done, after so many collectives.
    Done(u64),
    /// Something failed.
    GaveUp(String),
}

impl Farewell {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Done(collectives) => [&[0], collectives.to_le_bytes().as_slice()].concat(),
            Self::GaveUp(reason) => [&[1], reason.as_bytes()].concat(),
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Self {
        match bytes {
            [0, count @ ..] if let Ok(count) = count.try_into() => Self::Done(u64::from_le_bytes(count)),
            [_, reason @ ..] => Self::GaveUp(String::from_utf8_lossy(reason).into_owned()),
            [] => Self::GaveUp(String::new()),
        }
    }

    /// What a rank that failed by `error` says. `None` where the others know by themselves.
    pub(super) fn after(error: &GroupError, own_rank: usize) -> Option<Self> {
        match error {
            GroupError::Aborted { rank, .. } if rank.rank != own_rank => None,
            GroupError::Aborted { reason, .. } => Some(Self::GaveUp(reason.clone())),
            error => Some(Self::GaveUp(error.to_string())),
        }
    }
}

/// The ranks of the job and where they run.
#[derive(Debug, Clone)]
pub(super) struct Hosts(pub(super) Vec<Arc<str>>);

impl Hosts {
    pub(super) fn member(&self, rank: usize) -> Member {
        Member { rank, host: self.0.get(rank).cloned() }
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
        ] {
            assert_eq!(operation(header(asked, 7)), asked);
        }
    }

    #[test]
    fn farewells_are_read_as_they_were_written() {
        for said in [Farewell::Done(300), Farewell::GaveUp("out of memory".into())] {
            assert_eq!(Farewell::decode(&said.encode()), said);
        }
    }
}

/// What rank 0 has all replicas do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Train on the next batch.
    Step,
    /// Train on the last batch of an epoch, as a rehearsal does.
    LastBatch,
    /// Sum the losses of the steps since they were last read.
    Losses,
    /// Evaluate, with the running statistics of rank 0.
    Evaluate,
    /// The same of the first batches alone: rank 0 tells how many.
    Glance,
    /// Give rank 0 what recurrent layers carry on each rank.
    Carried,
    /// Compare the parameters.
    Check,
    /// Nothing, until the next order: rank 0 goes on when all have come.
    Wait,
    /// Training is over.
    End,
}

impl Order {
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

    pub(super) fn bytes(self) -> Vec<u8> {
        vec![self as u8]
    }

    /// `None` of what rank 0 of another version says.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.bytes() == bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_understood() {
        for order in Order::ALL {
            assert_eq!(Order::from_bytes(&order.bytes()), Some(order));
        }
        assert_eq!(Order::from_bytes(&[]), None);
        assert_eq!(Order::from_bytes(&[77]), None);
    }
}

use oomph_core::Split;
use oomph_data::{Batch, Loader};
use oomph_engine::session::{Session, train_order};
use oomph_memory::{Account, charge};

use crate::{TrainError, loading::next_batch};

/// Training batches, epoch after epoch without end.
pub(crate) struct Batches<'a> {
    session: &'a Session,
    loader: Loader,
    epoch: usize,
}

impl<'a> Batches<'a> {
    pub(crate) fn new(session: &'a Session) -> Self {
        Self { session, loader: Self::load(session, 0), epoch: 0 }
    }

    fn load(session: &Session, epoch: usize) -> Loader {
        charge(Account::Host, || {
            let (source, order) = (session.source.clone(), train_order(session));
            let seed = session.config.train.seed;
            Loader::start(source, Split::Train, order, epoch, 0, Some(seed), &session.loader)
        })
    }

    /// The next batch with a readable sample. `None` where a whole epoch has none.
    pub(crate) fn next(&mut self) -> Result<Option<Batch>, TrainError> {
        charge(Account::Host, || {
            let started = self.epoch;
            while self.epoch <= started + 1 {
                match next_batch(&mut self.loader).transpose()? {
                    Some(batch) if batch.size > 0 => return Ok(Some(batch)),
                    // No sample of the batch is readable.
                    Some(_) => {}
                    None => {
                        self.epoch += 1;
                        self.loader = Self::load(self.session, self.epoch);
                    }
                }
            }
            Ok(None)
        })
    }
}

/// The last batch of an epoch, if it is smaller and kept.
pub(crate) fn last_batch(session: &Session) -> Result<Option<Batch>, TrainError> {
    let order = train_order(session);
    let last = order.batches().saturating_sub(1);
    if last == 0 || order.len().is_multiple_of(session.config.train.batch) {
        return Ok(None);
    }
    charge(Account::Host, || {
        let (source, seed) = (session.source.clone(), session.config.train.seed);
        let mut loader = Loader::start(source, Split::Train, order, 0, last, Some(seed), &session.loader);
        Ok(loader.next().transpose()?)
    })
}

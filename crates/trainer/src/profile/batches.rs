use oomph_core::Split;
use oomph_data::{Batch, Loader};
use oomph_memory::{Account, charge};

use crate::{Session, TrainError, loading::next_batch};

/// Training batches without end: epoch after epoch.
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
            let (source, order) = (session.source.clone(), session.train_order());
            let seed = session.config.train.seed;
            Loader::start(source, Split::Train, order, epoch, 0, Some(seed), &session.loader)
        })
    }

    /// The next batch that a sample could be read for; `None` where a whole epoch has none.
    pub(crate) fn next(&mut self) -> Result<Option<Batch>, TrainError> {
        charge(Account::Host, || {
            let started = self.epoch;
            while self.epoch <= started + 1 {
                match next_batch(&mut self.loader).transpose()? {
                    Some(batch) if batch.size > 0 => return Ok(Some(batch)),
                    // None of its samples can be read.
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

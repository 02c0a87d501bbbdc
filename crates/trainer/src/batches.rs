use oomph_advice::eval_order;
use oomph_core::Split;
use oomph_data::{Batch, DataError, Loader, LoaderOptions};
use oomph_engine::session::{Session, train_order};
use oomph_memory::{Account, charge, record::track};
use oomph_timeline::TrackKind;

use crate::TrainError;

/// Loads this rank's part of an epoch of the training set, from batch `first` on.
pub(crate) fn train_loader(session: &Session, epoch: usize, first: usize) -> Loader {
    charge(Account::Host, || {
        let (source, seed) = (session.source.clone(), session.config.train.seed);
        Loader::start(source, Split::Train, train_order(session), epoch, first, Some(seed), &session.loader)
    })
}

/// Loads this rank's part of the held-out set.
pub(crate) fn eval_loader(session: &Session, options: &LoaderOptions) -> Loader {
    charge(Account::Host, || {
        Loader::start(session.source.clone(), Split::Test, eval_order(session), 0, 0, None, options)
    })
}

/// Loads the next batch into host memory. The device waits for a worker, or loads the batch itself without workers.
pub(crate) fn next_batch(loader: &mut Loader) -> Option<Result<Batch, DataError>> {
    charge(Account::Host, || {
        let _track = track(TrackKind::Data, "load", None);
        loader.next()
    })
}

/// Training batches, epoch after epoch without end.
pub(crate) struct Batches<'a> {
    session: &'a Session,
    loader: Loader,
    epoch: usize,
}

impl<'a> Batches<'a> {
    pub(crate) fn new(session: &'a Session) -> Self {
        Self { session, loader: train_loader(session, 0, 0), epoch: 0 }
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
                        self.loader = train_loader(self.session, self.epoch, 0);
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
    charge(Account::Host, || Ok(train_loader(session, 0, last).next().transpose()?))
}

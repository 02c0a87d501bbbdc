use oomph_data::{Batch, DataError, Loader};
use oomph_memory::{Account, charge, record::track};
use oomph_timeline::TrackKind;

/// Loads the next batch into host memory. The device waits for a worker, or loads the batch itself without workers.
pub(crate) fn next_batch(loader: &mut Loader) -> Option<Result<Batch, DataError>> {
    charge(Account::Host, || {
        let _track = track(TrackKind::Data, "load", None);
        loader.next()
    })
}

use std::ops::Range;

use oomph_config::Balance;
use oomph_parallel::best_cut;

use crate::{Session, SessionError, TrainError};

/// Cuts the model so that the largest device is as small as can be, by what is planned or estimated for each part.
pub(crate) fn balanced(
    session: &Session,
    balance: Balance,
    devices: usize,
) -> Result<Vec<Range<usize>>, TrainError> {
    let rows = session.summary(session.micro_batch())?;
    let rows: Vec<_> = rows.stages().map(|row| (row.output_bytes.get(), row.multiply_adds)).collect();
    let mut cost = |stages: Range<usize>, _device: usize| -> Result<u64, SessionError> {
        let of = |(bytes, work): &(u64, u64)| match balance {
            Balance::Memory => *bytes,
            Balance::Time => *work,
        };
        Ok(rows[stages].iter().map(of).sum())
    };
    Ok(best_cut(rows.len(), devices, &mut cost)?)
}

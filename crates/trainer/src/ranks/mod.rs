//! Ranks that train together (`ddp`): each rank has a replica of the whole model and its rows of each batch.
//!
//! Rank 0 leads: it sends [commands](rank_command::RankCommand), writes the run directory and reports events. The other
//! ranks follow. Ranks are threads of one process, or processes.

mod follower;
mod launch;
mod rank_command;

pub(crate) use launch::{guarded, train_on_ranks};
pub(crate) use rank_command::{RankCommand, broadcast_start, command};

use oomph_engine::session::Session;

use crate::{Stop, TrainError};

/// Trains as a rank other than 0, in a session that was [opened together](crate::open_together). Rank 0 calls
/// [`train`](crate::train) and ends the training. This rank writes nothing and reports no events. `stop` ends an
/// evaluation.
///
/// # Errors
/// Where this rank fails, which ends the others too, or another rank failed.
pub fn follow(session: &Session, stop: &Stop) -> Result<(), TrainError> {
    guarded(session, |session| follower::follow(session, stop, None))
}

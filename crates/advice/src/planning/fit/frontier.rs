//! The frontier of peak memory against time.

use oomph_core::Bytes;
use oomph_engine::session::{Session, SplitKey, backend, largest_train_batch};

use super::{
    combinations::{Levers, combinations},
    search::{Fitted, Search},
};
use crate::{error::PlanError, planning::options::PlanOptions};

/// How much less than the last point the next one may need.
const STEP: f64 = 0.8;

/// What `memory.fit = "auto"` chooses under lower and lower limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frontier {
    /// From no limit to the lowest that anything fits. Each point needs less memory than the one before it. No combination that needs as
    /// little is faster by plan.
    pub points: Vec<Fitted>,
    /// The point that is chosen under the limit of the session, if one is known and anything fits it.
    pub chosen: Option<usize>,
}

/// The frontier of a session, with its own limit among the limits.
///
/// # Errors
/// If the model cannot be planned.
pub fn frontier(session: &Session, options: PlanOptions) -> Result<Frontier, PlanError> {
    let key = SplitKey {
        batch: options.batch.unwrap_or_else(|| largest_train_batch(session)),
        backend: options.backend.unwrap_or_else(|| backend(session)),
        limit_bytes: None,
    };
    let combinations = combinations(session, Levers::of_config(session, key.backend));
    let mut search = Search::new(&combinations, session, key, Bytes::new(u64::MAX))?;
    let mut points: Vec<Fitted> = Vec::new();
    while let Some(point) = search.fastest()? {
        let below = point.planned_peak_bytes.get() as f64 * (1.0 + key.backend.margin()) * STEP;
        search.set_limit(Bytes::new(below as u64));
        points.push(point);
    }
    // The last step may have been too long.
    let least = search.leanest_peak()?.get() as f64 * (1.0 + key.backend.margin());
    search.set_limit(Bytes::new(least.ceil() as u64));
    let last = search.fastest()?;
    let is_lower =
        |last: &Fitted| points.last().is_none_or(|point| last.planned_peak_bytes < point.planned_peak_bytes);
    points.extend(last.filter(is_lower));
    let Some(limit) = options.limit_bytes.or(session.limit_bytes) else {
        return Ok(Frontier { points, chosen: None });
    };
    search.set_limit(limit);
    let Some(own) = search.fastest()? else { return Ok(Frontier { points, chosen: None }) };
    let place = points.iter().position(|point| point.changes == own.changes);
    let place = place.unwrap_or_else(|| {
        let place = points.partition_point(|point| point.planned_peak_bytes > own.planned_peak_bytes);
        points.insert(place, own);
        place
    });
    Ok(Frontier { points, chosen: Some(place) })
}

use oomph_core::Bytes;
use oomph_engine::session::Session;
use oomph_plan::Backend;

use crate::error::PlanError;

/// Plan settings that override those of the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanOptions {
    /// Samples of one step. Default: the configured batch.
    pub batch: Option<usize>,
    /// Samples of one forward and backward, at most the batch. Default: the configured micro-batch.
    pub micro_batch: Option<usize>,
    /// The backend whose allocator is planned. Default: the backend of the configured device.
    pub backend: Option<Backend>,
    /// The limit. Default: the limit of the session.
    pub limit_bytes: Option<Bytes>,
}

/// Checks that the batch of `options` has at least one sample for each replica.
///
/// # Errors
/// [`PlanError::TooFew`].
pub fn check_shares(session: &Session, options: PlanOptions) -> Result<(), PlanError> {
    let devices = session.world_size();
    match options.batch {
        Some(samples) if samples < devices => Err(PlanError::TooFew { samples, devices }),
        _ => Ok(()),
    }
}

/// Whether a planned peak fits a limit with the margin of the backend.
pub fn fits(planned_peak_bytes: Bytes, limit_bytes: Bytes, backend: Backend) -> bool {
    planned_peak_bytes.get() as f64 * (1.0 + backend.margin()) <= limit_bytes.get() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_margin_is_left() {
        let cpu = Backend::Cpu { threads: 1 };
        assert!(fits(Bytes::new(990), Bytes::new(1000), cpu));
        assert!(!fits(Bytes::new(995), Bytes::new(1000), cpu));
        assert!(fits(Bytes::new(980), Bytes::new(1000), Backend::Cuda));
        assert!(!fits(Bytes::new(985), Bytes::new(1000), Backend::Cuda));
    }
}

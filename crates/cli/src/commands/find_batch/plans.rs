use std::collections::HashMap;

use oomph_advice::{
    PlanError, Planned, check_training,
    planning::{PlanOptions, fits, planned_peak},
    varied,
};
use oomph_config::{Change, ConfigError};
use oomph_core::Bytes;
use oomph_engine::session::{Session, backend};

use super::subject::Subject;

/// The plans of one session for different sizes, cached.
pub(super) struct Plans<'a> {
    session: &'a Session,
    subject: Subject,
    /// The memory limit of the children, if they get one.
    limit_bytes: Option<Bytes>,
    peaks: HashMap<usize, Option<Bytes>>,
    allowed: HashMap<usize, bool>,
}

impl<'a> Plans<'a> {
    pub(super) fn new(session: &'a Session, subject: Subject, limit_bytes: Option<Bytes>) -> Self {
        Self { session, subject, limit_bytes, peaks: HashMap::new(), allowed: HashMap::new() }
    }

    /// The session with a size.
    pub(super) fn session(&self, size: usize) -> Result<Session, ConfigError> {
        let mut changes = vec![self.subject.change(size)];
        changes.extend(self.limit_bytes.map(Change::Limit));
        varied(self.session, &changes)
    }

    /// Checks that a size can be trained.
    pub(super) fn check(&self, size: usize) -> Result<(), PlanError> {
        check_training(&self.session(size)?)
    }

    /// The first of the sizes that can be trained, among the first 64.
    pub(super) fn least_allowed(&mut self, sizes: impl Iterator<Item = usize>) -> Option<usize> {
        /// Only small sizes are refused: batch normalisation needs two values per channel.
        const MOST_REFUSED: usize = 64;
        sizes.take(MOST_REFUSED).find(|size| self.is_allowed(*size))
    }

    /// Whether a planned peak fits with the safety margin of plans for this device.
    pub(super) fn fits(&self, planned_peak_bytes: Bytes, limit_bytes: Bytes) -> bool {
        fits(planned_peak_bytes, limit_bytes, backend(self.session))
    }
}

impl Planned for Plans<'_> {
    /// The planned peak; of the fullest device if there are several.
    fn peak(&mut self, batch: usize) -> Option<Bytes> {
        if let Some(known) = self.peaks.get(&batch) {
            return *known;
        }
        let session = self.session(batch).ok();
        let peak = session.and_then(|session| planned_peak(&session, PlanOptions::default()).ok());
        self.peaks.insert(batch, peak);
        peak
    }

    fn is_allowed(&mut self, batch: usize) -> bool {
        if let Some(known) = self.allowed.get(&batch) {
            return *known;
        }
        let is_allowed = self.check(batch).is_ok();
        self.allowed.insert(batch, is_allowed);
        is_allowed
    }
}

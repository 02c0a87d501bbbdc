use std::collections::HashMap;

use oomph_core::Bytes;
use oomph_trainer::{PlanOptions, Planned, Session, SessionError, backend, fits, planned_peak};

use super::subject::Subject;

/// Plans of one session in sizes, each made once.
pub(super) struct Plans<'a> {
    session: &'a Session,
    subject: Subject,
    /// The limit of the children, where they are to have one.
    limit_bytes: Option<Bytes>,
    peaks: HashMap<usize, Option<Bytes>>,
    allowed: HashMap<usize, bool>,
}

impl<'a> Plans<'a> {
    pub(super) fn new(session: &'a Session, subject: Subject, limit_bytes: Option<Bytes>) -> Self {
        Self { session, subject, limit_bytes, peaks: HashMap::new(), allowed: HashMap::new() }
    }

    /// The session with one size.
    pub(super) fn session(&self, size: usize) -> Result<Session, SessionError> {
        let mut settings = self.subject.settings(size);
        settings.extend(self.limit_bytes.map(|limit| ("memory.limit".to_owned(), limit.get().to_string())));
        self.session.varied(&settings)
    }

    /// Why there is no training with a size, if there is none.
    pub(super) fn check(&self, size: usize) -> Result<(), SessionError> {
        self.session(size)?.check_training()
    }

    /// The first of some sizes that there is a training with, where it is one of the first.
    pub(super) fn least_allowed(&mut self, sizes: impl Iterator<Item = usize>) -> Option<usize> {
        /// More than these are not refused at the beginning: a normalisation wants two values.
        const MOST_REFUSED: usize = 64;
        sizes.take(MOST_REFUSED).find(|size| self.is_allowed(*size))
    }

    /// The planned peak of one size; of several devices that of the fullest.
    pub(super) fn peak_bytes(&mut self, size: usize) -> Option<Bytes> {
        if let Some(known) = self.peaks.get(&size) {
            return *known;
        }
        let session = self.session(size).ok();
        let peak = session.and_then(|session| planned_peak(&session, PlanOptions::default()).ok());
        self.peaks.insert(size, peak);
        peak
    }

    /// Whether a planned peak fits, with the margin that plans on this device are to have.
    pub(super) fn fits(&self, planned_peak_bytes: Bytes, limit_bytes: Bytes) -> bool {
        fits(planned_peak_bytes, limit_bytes, backend(self.session))
    }
}

impl Planned for Plans<'_> {
    fn peak(&mut self, batch: usize) -> Option<Bytes> {
        self.peak_bytes(batch)
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

use burn::tensor::Device;
use oomph_config::{Cleanup, DeviceName};
use oomph_core::Bytes;

use oomph_engine::session::Session;

/// Frees cached pages of the allocator that fit no later allocation, such as those of model creation or of an evaluation.
#[derive(Debug)]
pub(crate) struct Cleaner {
    when: Cleanup,
    device: Device,
    is_cpu: bool,
    limit_bytes: Option<Bytes>,
}

/// A moment at which a clean-up may pay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The model and its state are made.
    Initialised,
    /// An evaluation begins or is over: its sizes are not those of a step.
    Evaluation,
    /// An epoch is over.
    Epoch,
    /// Metrics are logged.
    Logged { reserved: Bytes, in_use: Bytes },
}

impl Cleaner {
    pub(crate) fn new(session: &Session) -> Self {
        Self {
            when: session.config.memory.cleanup,
            device: session.device.clone(),
            is_cpu: session.config.device.devices[0] == DeviceName::Cpu,
            limit_bytes: session.limit_bytes,
        }
    }

    /// Cleans up, if that pays at this moment.
    pub(crate) fn at(&self, moment: Moment) {
        if !pays(self.when, moment, self.limit_bytes) {
            return;
        }
        self.device.memory_cleanup();
        if self.is_cpu {
            oomph_memory::give_back_freed_memory();
        }
    }
}

/// Whether a clean-up pays. The next step allocates its pages again, which costs milliseconds on the CPU and a
/// synchronisation on a GPU.
fn pays(when: Cleanup, moment: Moment, limit_bytes: Option<Bytes>) -> bool {
    match (when, moment) {
        (Cleanup::Never, _) | (Cleanup::Auto, Moment::Epoch) => false,
        (Cleanup::EachEpoch, moment) => moment == Moment::Epoch,
        (Cleanup::Auto, Moment::Initialised | Moment::Evaluation) => true,
        (Cleanup::Auto, Moment::Logged { reserved, in_use }) => {
            let Some(limit) = limit_bytes else { return false };
            // Nine tenths of the limit are reserved, and a tenth of the reserved bytes is unused.
            let [reserved, in_use, limit] = [reserved, in_use, limit].map(|bytes| bytes.get() as f64);
            reserved > 0.9 * limit && reserved - in_use > 0.1 * reserved
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn under_pressure_is_cleaned_up_only_where_something_is_unused() {
        let logged = |reserved: u64, in_use: u64| Moment::Logged {
            reserved: Bytes::new(reserved),
            in_use: Bytes::new(in_use),
        };
        let limit = Some(Bytes::new(1000));
        assert!(pays(Cleanup::Auto, logged(950, 500), limit));
        assert!(!pays(Cleanup::Auto, logged(950, 940), limit));
        assert!(!pays(Cleanup::Auto, logged(500, 100), limit));
        assert!(!pays(Cleanup::Auto, logged(950, 500), None));
        assert!(!pays(Cleanup::Never, logged(950, 500), limit));
        assert!(!pays(Cleanup::Never, Moment::Evaluation, limit));
        assert!(pays(Cleanup::EachEpoch, Moment::Epoch, limit));
        assert!(!pays(Cleanup::EachEpoch, Moment::Evaluation, limit));
    }
}

//! Bytes that the kernels of a training step read and write: see `oomph_cuda_sim::traffic` for what counts.

use std::collections::BTreeMap;

use oomph_cuda_sim::{report::CardReport, traffic::Traffic};

/// Titles of the columns of [`Bytes::cells`], behind the training's name. `tools/gpu_steps_pytorch.py` reads them.
pub(super) const TITLES: [&str; 7] = [
    ">launches",
    ">MB",
    ">read, MB",
    ">written, MB",
    ">copied, MB",
    ">launches of the optimizer",
    ">bytes a parameter",
];

/// Kernels of the optimizers, as `crates/gpu_kernels` names them, begin so.
const OPTIMIZER: &str = "step_";

/// What one step moves.
pub(super) struct Bytes {
    /// By kernel, each count as a mean of steps.
    pub(super) kernels: BTreeMap<String, Moved>,
    /// Copies from and to the host, copies within the card and fills: what they read and write of the card's memory.
    pub(super) copied: f64,
}

/// Launches of a kernel in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Moved {
    pub(super) launches: f64,
    pub(super) read: f64,
    pub(super) written: f64,
}

impl Moved {
    pub(super) fn bytes(&self) -> f64 {
        self.read + self.written
    }

    fn sum<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            launches: sum.launches + one.launches,
            read: sum.read + one.read,
            written: sum.written + one.written,
        })
    }
}

impl Bytes {
    /// The difference of two trainings, one `steps` steps longer. Launches without known buffers are an error: their bytes
    /// would be missing.
    pub(super) fn between(short: &CardReport, long: &CardReport, steps: f64) -> Result<Self, String> {
        if long.launches_without_bytes > 0 {
            return Err(format!("{} launches have unknown buffers", long.launches_without_bytes));
        }
        let before = |kernel: &String| short.kernels.get(kernel).copied().unwrap_or_default();
        let mean = |long: u64, short: u64| (long as f64 - short as f64) / steps;
        let moved = |long: &Traffic, short: &Traffic| Moved {
            launches: mean(long.launches, short.launches),
            read: mean(long.buffer_bytes_read, short.buffer_bytes_read),
            written: mean(long.buffer_bytes_written, short.buffer_bytes_written),
        };
        let kernels = long.kernels.iter().map(|(name, long)| (name.clone(), moved(long, &before(name))));
        let kernels = kernels.filter(|(_, moved)| moved.launches > 0.0).collect();
        Ok(Self { kernels, copied: mean(copied(long), copied(short)) })
    }

    /// Cells for [`TITLES`], of a network of so many parameters.
    pub(super) fn cells(&self, parameters: f64) -> [String; 7] {
        let all = Moved::sum(self.kernels.values());
        let of_optimizer = self.kernels.iter().filter(|(name, _)| name.starts_with(OPTIMIZER));
        let optimizer = Moved::sum(of_optimizer.map(|(_, moved)| moved));
        [
            format!("{:.0}", all.launches),
            megabytes(all.bytes()),
            megabytes(all.read),
            megabytes(all.written),
            megabytes(self.copied),
            format!("{:.0}", optimizer.launches),
            format!("{:.1}", optimizer.bytes() / parameters),
        ]
    }

    /// Prints the kernels that move most.
    pub(super) fn print_kernels(&self) {
        let mut kernels: Vec<_> = self.kernels.iter().collect();
        kernels.sort_by(|one, other| other.1.bytes().total_cmp(&one.1.bytes()));
        for (name, Moved { launches, read, written }) in kernels {
            eprintln!(
                "  {launches:6.1} × {name}: {} MB read, {} MB written",
                megabytes(*read),
                megabytes(*written)
            );
        }
    }
}

/// Bytes that copies and fills read and write of a card's memory.
fn copied(card: &CardReport) -> u64 {
    card.bytes_to_device + card.bytes_to_host + 2 * card.bytes_on_device + card.bytes_filled
}

pub(super) fn megabytes(bytes: f64) -> String {
    format!("{:.1}", bytes / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(launches: u64, bytes_to_device: u64) -> CardReport {
        let traffic = |launches| Traffic {
            launches,
            buffer_bytes_read: launches * 3_000_000,
            buffer_bytes_written: launches * 2_000_000,
            ..Traffic::default()
        };
        CardReport {
            bytes_to_device,
            kernels: [("step_sgd".to_owned(), traffic(launches)), ("init".to_owned(), traffic(7))].into(),
            ..CardReport::default()
        }
    }

    #[test]
    fn what_only_the_beginning_launches_is_of_no_step() {
        let bytes = Bytes::between(&report(6, 1_000), &report(26, 5_001_000), 10.0).unwrap();
        assert_eq!(bytes.kernels.keys().collect::<Vec<_>>(), ["step_sgd"]);
        assert_eq!(bytes.cells(500_000.0), ["2", "10.0", "6.0", "4.0", "0.5", "2", "20.0"]);
    }

    #[test]
    fn unknown_buffers_are_an_error() {
        let long = CardReport { launches_without_bytes: 1, ..report(2, 0) };
        assert!(Bytes::between(&report(1, 0), &long, 1.0).is_err());
    }
}

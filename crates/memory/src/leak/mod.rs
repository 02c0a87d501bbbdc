//! Finds memory that is never freed, by comparing the same point of successive steps.
//!
//! - [`LeakWatch`]: reads the meter at a [`Point`] and reports growth.
//! - [`LeakDetector`]: the comparison alone, of any figures.
//! - [`Leak`]: the report, displayed as a sentence.
//!
//! ```
//! use oomph_memory::{Account, charge, leak::{LeakWatch, Point}};
//! oomph_memory::install_meter!();
//!
//! # fn main() {
//! let mut watch = LeakWatch::new(None);
//! let mut kept = Vec::new();
//! let found = (0..20).find_map(|_| {
//!     kept.push(charge(Account::Device, || vec![0.0f32; 1000])); // a step that forgets something
//!     watch.check(Point::step(32))
//! });
//! assert_eq!(found.map(|leak| leak.growth.bytes_per_step.get()), Some(4000));
//! # }
//! ```

mod detector;
mod kinds;
mod report;
mod trend;
mod watch;

pub use detector::{Finding, Growth, LeakDetector, Point};
pub use kinds::GrownKind;
pub use report::{Cause, Leak};
pub use watch::LeakWatch;

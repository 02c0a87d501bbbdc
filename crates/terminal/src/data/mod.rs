//! What a data source holds, for people and for programs.

mod described;
mod preview;
mod report;

pub use described::{Described, DescribedClass, DescribedLabel};
pub use preview::WrittenPreview;
pub use report::report;

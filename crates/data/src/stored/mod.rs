//! Samples as they are stored, and how many there are of each class or label.

mod counts;
mod sample;

pub use self::{
    counts::{LabelCounts, class_counts, label_counts},
    sample::{Content, StoredSample},
};

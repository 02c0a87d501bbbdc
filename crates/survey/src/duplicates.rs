use std::collections::HashMap;

use oomph_core::Split;
use oomph_data::{Source, stored::Content};
use serde::Serialize;

/// Held-out samples with the same bytes as a training sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Duplicates {
    /// Their number, of those that were read.
    pub count: usize,
    /// The first of them.
    pub first: Vec<Duplicate>,
}

/// Two samples with the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Duplicate {
    /// The name of the held-out sample.
    pub held_out: String,
    /// The name of the training sample.
    pub train: String,
}

/// The most duplicates that are named.
const NAMED: usize = 10;

impl Duplicates {
    /// Compares the contents of samples, given by their indices. The first of equal training samples is named.
    pub(super) fn between(
        source: &dyn Source,
        in_train: Vec<(usize, Content)>,
        in_test: &[(usize, Content)],
    ) -> Self {
        let mut first_index = HashMap::with_capacity(in_train.len());
        for (index, content) in in_train {
            first_index.entry(content).or_insert(index);
        }
        let equal = in_test.iter().filter_map(|(index, content)| Some((*index, *first_index.get(content)?)));
        let named = equal.clone().take(NAMED).map(|(held_out, train)| Duplicate {
            held_out: source.sample_name(Split::Test, held_out),
            train: source.sample_name(Split::Train, train),
        });
        Self { count: equal.clone().count(), first: named.collect() }
    }
}

use std::{collections::BTreeSet, path::PathBuf};

use oomph_config::Value;
use oomph_trainer::RunSummary;
use serde::Serialize;

/// Every run has one of its own.
const DIRECTORY: &str = "run.directory";

/// A key that has not the same value in all runs.
#[derive(Debug, Serialize)]
pub(super) struct Difference {
    pub(super) key: String,
    /// Each value with the runs that have it, in the order of the runs.
    pub(super) values: Vec<Having>,
}

/// The runs that have one value.
#[derive(Debug, Serialize)]
pub(super) struct Having {
    /// `None` where the key is not set.
    pub(super) value: Option<Value>,
    pub(super) runs: Vec<PathBuf>,
}

/// The keys that differ, by name.
pub(super) fn differences(runs: &[RunSummary]) -> Vec<Difference> {
    let keys: BTreeSet<&String> = runs.iter().flat_map(|run| run.config.keys()).collect();
    let difference = |key: &String| Difference { key: key.clone(), values: values(runs, key) };
    let all = keys.into_iter().filter(|key| *key != DIRECTORY).map(difference);
    all.filter(|difference| difference.values.len() > 1).collect()
}

fn values(runs: &[RunSummary], key: &str) -> Vec<Having> {
    let mut values: Vec<Having> = Vec::new();
    for run in runs {
        let value = run.config.get(key);
        let is_same = |having: &&mut Having| match (&having.value, value) {
            (Some(one), Some(other)) => one.same(other),
            (None, None) => true,
            _ => false,
        };
        match values.iter_mut().find(is_same) {
            Some(having) => having.runs.push(run.run_dir.clone()),
            None => values.push(Having { value: value.cloned(), runs: vec![run.run_dir.clone()] }),
        }
    }
    values
}

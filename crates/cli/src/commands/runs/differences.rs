use std::{collections::BTreeSet, path::PathBuf};

use oomph_config::Value;
use oomph_runs::RunSummary;
use serde::Serialize;

/// Differs in all runs, so it is not compared.
const DIRECTORY: &str = "run.directory";

/// A key with different values.
#[derive(Debug, Serialize)]
pub(super) struct Difference {
    pub(super) key: String,
    /// Each value with its runs, in the order of the runs.
    pub(super) values: Vec<ValueRuns>,
}

/// A value with the runs that have it.
#[derive(Debug, Serialize)]
pub(super) struct ValueRuns {
    /// `None` if the key is not set.
    pub(super) value: Option<Value>,
    pub(super) runs: Vec<PathBuf>,
}

/// The keys with different values, sorted by name.
pub(super) fn differences(runs: &[RunSummary]) -> Vec<Difference> {
    let keys: BTreeSet<&String> = runs.iter().flat_map(|run| run.config.keys()).collect();
    let difference = |key: &String| Difference { key: key.clone(), values: values(runs, key) };
    let all = keys.into_iter().filter(|key| *key != DIRECTORY).map(difference);
    all.filter(|difference| difference.values.len() > 1).collect()
}

fn values(runs: &[RunSummary], key: &str) -> Vec<ValueRuns> {
    let mut values: Vec<ValueRuns> = Vec::new();
    for run in runs {
        let value = run.config.get(key);
        let is_same = |entry: &&mut ValueRuns| match (&entry.value, value) {
            (Some(one), Some(other)) => one.same(other),
            (None, None) => true,
            _ => false,
        };
        match values.iter_mut().find(is_same) {
            Some(entry) => entry.runs.push(run.run_dir.clone()),
            None => values.push(ValueRuns { value: value.cloned(), runs: vec![run.run_dir.clone()] }),
        }
    }
    values
}

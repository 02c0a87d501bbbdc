//! How the configurations of runs differ.

use std::{collections::BTreeSet, path::PathBuf};

use oomph_config::Value;
use oomph_core::Bytes;
use serde::Serialize;

use super::RunSummary;

/// Differs in all runs, so it is not compared.
const DIRECTORY: &str = "run.directory";

/// A key with different values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The key.
    pub key: String,
    /// Each value with its runs, in the order of the runs.
    pub values: Vec<ValueRuns>,
}

/// A value with the runs that have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValueRuns {
    /// `None` if the key is not set.
    pub value: Option<Value>,
    /// The directories of the runs.
    pub runs: Vec<PathBuf>,
}

/// Keys whose integers count bytes.
const SIZES: [&str; 3] = ["memory.limit", "device.bucket", "data.max_file_bytes"];

impl ValueRuns {
    /// The value of `key` as people read it: a size with its unit, `not set` without a value.
    pub fn shown(&self, key: &str) -> String {
        let Some(value) = &self.value else { return "not set".to_owned() };
        match value {
            Value::Integer(bytes) if SIZES.contains(&key) => {
                u64::try_from(*bytes).map_or_else(|_| value.shown(), |bytes| Bytes::new(bytes).to_string())
            }
            value => value.shown(),
        }
    }
}

/// The keys with different values, sorted by name. `run.directory` is left out.
pub fn differences(runs: &[RunSummary]) -> Vec<Difference> {
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

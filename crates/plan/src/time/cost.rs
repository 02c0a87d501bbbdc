//! The duration of recorded operations.

use std::collections::HashMap;

use burn_ir::OperationIr;

use oomph_core::{Phase, is_within};

use super::{speeds::Speeds, work::Work};
use crate::{Noted, Recording, recording::first_output};

/// The estimated seconds of the recorded operations, up to [`Noted::End`].
pub fn cost(recording: &Recording, speeds: &Speeds) -> f64 {
    let end = recording.notes.iter().find(|note| note.what == Noted::End).map_or(u64::MAX, |note| note.at);
    let is_before = |operation: &&OperationIr| first_output(operation).is_none_or(|first| first < end);
    recording.operations.iter().take_while(is_before).map(|operation| seconds(operation, speeds)).sum()
}

/// The estimated seconds of each stage's recorded forward operations, by stage name.
pub fn forward_costs(recording: &Recording, speeds: &Speeds) -> HashMap<String, f64> {
    let mut costs: HashMap<String, f64> = HashMap::new();
    let mut notes = recording.notes.iter().peekable();
    let mut stage: Option<&String> = None;
    for operation in &recording.operations {
        let first = first_output(operation);
        while let Some(note) = notes.next_if(|note| first.is_some_and(|first| note.at < first)) {
            if let Noted::Point(point) = &note.what {
                let scope = point.scope();
                let is_of = |stage: &&String| is_within(&scope, stage);
                stage = recording.stages.iter().find(is_of).filter(|_| point.phase() == Phase::Forward);
            }
        }
        if let Some(stage) = stage {
            *costs.entry(stage.clone()).or_default() += seconds(operation, speeds);
        }
    }
    costs
}

fn seconds(operation: &OperationIr, speeds: &Speeds) -> f64 {
    speeds.seconds(Work::of(operation).as_ref())
}

//! What a running study tells.

use std::collections::BTreeMap;

use oomph_core::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::length::Unit;

/// An event of a running study. Only events of this process's trials are told.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TuneEvent {
    /// The study was begun, joined or resumed.
    Opened {
        /// Its name.
        study: String,
        /// Trials that it has.
        trials: usize,
        /// Trials that it is to have.
        of: usize,
        /// Trials that this process trains at the same time.
        parallel: usize,
        /// Its metric.
        metric: &'static str,
        /// What the progress of trials is counted in.
        unit: Unit,
    },
    /// A trial trains.
    Trains {
        /// Its number.
        trial: usize,
        /// Its parameters.
        parameters: BTreeMap<String, Value>,
        /// How often it was begun or continued by now; 1: it begins.
        attempt: u64,
        /// The length after which its value was measured last; 0: never.
        from: u64,
        /// The length after which it pauses or ends.
        until: u64,
        /// Its planned peak.
        planned_peak_bytes: Bytes,
        /// Settings that were adapted to fit.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        adapted: BTreeMap<String, Value>,
    },
    /// A trial has trained some steps.
    Progress {
        /// Its number.
        trial: usize,
        /// Optimizer steps done.
        step: usize,
        /// Optimizer steps of the whole trial.
        steps: usize,
    },
    /// A trial's metric was measured.
    Value {
        /// Its number.
        trial: usize,
        /// Epochs or steps.
        at: u64,
        /// The value.
        value: f64,
    },
    /// A trial stands at a rung.
    Paused {
        /// Its number.
        trial: usize,
        /// Epochs or steps.
        at: u64,
        /// The value.
        value: f64,
    },
    /// A trial was trained to its end.
    Complete {
        /// Its number.
        trial: usize,
        /// The value.
        value: f64,
        /// Whether it is the best one so far.
        best: bool,
    },
    /// A trial was ended early, as others are better.
    Pruned {
        /// Its number.
        trial: usize,
    },
    /// A trial has no value.
    Failed {
        /// Its number.
        trial: usize,
        /// Why.
        reason: String,
    },
    /// A trial does not fit into memory.
    TooLarge {
        /// Its number.
        trial: usize,
        /// Why.
        reason: String,
    },
    /// A trial ran out of memory, and is tried again with other settings.
    Adapted {
        /// Its number.
        trial: usize,
        /// The settings.
        settings: BTreeMap<String, Value>,
    },
    /// A trial was given back: this process stops, or another worker has it.
    Released {
        /// Its number.
        trial: usize,
    },
    /// This process has nothing to do until other processes are done with trials.
    Waits {
        /// The numbers of the trials.
        trials: Vec<usize>,
        /// Seconds after which one of them is free, if its process gives no sign of life until then.
        seconds: u64,
    },
    /// A warning. The study continues.
    Warning {
        /// The warning.
        message: String,
    },
}

/// Receives the events of a running study.
pub trait TuneObserver: Send {
    /// Receives an event.
    fn event(&mut self, event: &TuneEvent);
}

/// An observer that ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuietTune;

impl TuneObserver for QuietTune {
    fn event(&mut self, _event: &TuneEvent) {}
}

//! A profile of a training: the pools, where stages and phases of a step end; and the plan's bytes at the same places.

use std::{collections::HashMap, error::Error, process::Command};

use oomph_advice::planning::STEPS;
use oomph_config::{Config, MicroBatch, Recompute};
use oomph_core::Bytes;
use oomph_timeline::{SpanKind, Timeline};
use serde_json::Value;

/// A place where a step's memory is read: a phase, and a stage within it that has just ended. Without a stage, the phase
/// has ended.
pub(crate) type Place = (String, String);

/// What the pools tell.
pub(crate) struct Profile {
    /// Bytes in use with their padding, at each place.
    pub(crate) readings: Vec<(Place, u64)>,
    /// Reserved bytes after the last step.
    pub(crate) reserved: u64,
}

impl Profile {
    /// Runs `profile --json`.
    ///
    /// # Errors
    /// The error of the command.
    pub(crate) fn of(mut command: Command) -> Result<Self, Box<dyn Error>> {
        let output = command.output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        let profile: Value = serde_json::from_slice(&output.stdout)?;
        let boundaries = profile["boundaries"].as_array().ok_or("the profile has no boundaries")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let bytes = |value: &Value| value.as_u64().unwrap_or(0);
        let readings = boundaries.iter().map(|boundary| {
            let place = (text(&boundary["phase"]), text(&boundary["stage"]));
            (place, bytes(&boundary["in_use_bytes"]) + bytes(&boundary["padding_bytes"]))
        });
        Ok(Self { readings: readings.collect(), reserved: bytes(&profile["reserved_bytes"]) })
    }

    /// The place where most bytes are in use, by the plan and by the pools, for a training with this configuration.
    ///
    /// # Errors
    /// Where the plan has no such place.
    pub(crate) fn highest(self, planned: &Timeline, config: &Config) -> Result<Compared, Box<dyn Error>> {
        let levels = levels(planned, config.memory.recompute != Recompute::None);
        let whole = MicroBatch::Samples(config.train.batch);
        let accumulates = config.memory.micro_batch.is_some_and(|part| part != whole);
        // The pools are read before the gradients of a micro-batch are added; the planned phase ends behind that.
        let is_compared = |place: &Place| !accumulates || *place != ("backward".to_owned(), String::new());
        let readings = self.readings.into_iter().filter(|(place, _)| is_compared(place));
        let highest = readings.max_by_key(|(_, bytes)| *bytes);
        let (place, found) = highest.ok_or("no reading")?;
        let level = levels.get(&place).ok_or_else(|| format!("the plan has no {} {}", place.0, place.1))?;
        Ok(Compared { planned: *level, found })
    }
}

/// A prediction, and the truth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compared {
    pub(crate) planned: u64,
    pub(crate) found: u64,
}

impl Compared {
    /// The error of the prediction, as a share of the truth.
    pub(crate) fn error(self) -> f64 {
        self.planned as f64 / self.found as f64 - 1.0
    }

    /// Both, and the error.
    pub(crate) fn cells(self) -> [String; 3] {
        let [planned, found] = [self.planned, self.found].map(|bytes| Bytes::new(bytes).to_string());
        [planned, found, format!("{:+.2} %", 100.0 * self.error())]
    }
}

/// Bytes in use at each place of the last planned step; the most of all micro-batches. Where backward computes stages again,
/// the pools are not read.
fn levels(planned: &Timeline, recomputes: bool) -> HashMap<Place, u64> {
    let name = |span: &oomph_timeline::Span| planned.names.text(span.name).to_owned();
    let last = format!("step {STEPS}");
    let Some(step) = planned.spans_of(SpanKind::Step).find(|span| name(span) == last) else {
        return HashMap::new();
    };
    let spans: Vec<_> =
        planned.spans.iter().filter(|span| (step.start..step.end).contains(&span.start)).collect();
    let phases: Vec<_> = spans.iter().filter(|span| span.kind == SpanKind::Phase).collect();
    // Forward and backward alternate without another phase between them.
    let is_again = |index: usize| {
        recomputes && index > 0 && name(phases[index]) == "forward" && name(phases[index - 1]) == "backward"
    };
    let totals: Vec<u64> = planned.levels().iter().map(|split| split.total().get()).collect();
    let mut levels = HashMap::new();
    for (index, phase) in phases.iter().enumerate().filter(|(index, _)| !is_again(*index)) {
        let stages = spans.iter().filter(|span| span.kind == SpanKind::Stage);
        let within = stages.filter(|span| (phase.start..phase.end).contains(&span.start));
        let is_whole = index + 1 == phases.len() || !is_again(index + 1);
        let end = is_whole.then_some((String::new(), phase.end));
        for (stage, end) in within.map(|span| (name(span), span.end)).chain(end) {
            let bytes = totals.get(end.saturating_sub(1) as usize).copied().unwrap_or(0);
            let level: &mut u64 = levels.entry((name(phase), stage)).or_default();
            *level = bytes.max(*level);
        }
    }
    levels
}

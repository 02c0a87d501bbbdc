//! A profile of a training: the pools, where stages and phases of a step end, beside the plan.

use std::{error::Error, process::Command};

use oomph_config::Config;
use oomph_core::Bytes;
use oomph_timeline::Timeline;
use oomph_trainer::profile::PlannedBoundaries;
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
        let boundaries = PlannedBoundaries::of(planned, config);
        let is_comparable = |(phase, stage): &Place| boundaries.is_comparable(phase, stage);
        let readings = self.readings.into_iter().filter(|(place, _)| is_comparable(place));
        let ((phase, stage), found) = readings.max_by_key(|(_, bytes)| *bytes).ok_or("no reading")?;
        let level = boundaries.bytes(&phase, &stage);
        let level = level.ok_or_else(|| format!("the plan has no {phase} {stage}"))?;
        Ok(Compared { planned: level.get(), found })
    }
}

/// A prediction, and the truth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compared {
    pub(crate) planned: u64,
    pub(crate) found: u64,
}

/// The titles of [`Compared::cells`] of reserved bytes and of bytes in use.
pub(crate) const COMPARED: [&str; 6] =
    [">reserved, planned", ">reserved", ">error", ">in use, planned", ">in use", ">error"];

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

//! `--plan`: how much of a space fits, before anything is trained.

use oomph_config::{
    Config,
    sections::{space::SpaceEntry, tune::Tune},
};
use oomph_core::Bytes;
use oomph_search::{Direction, Draw, Point, Sampler, Sobol};
use serde::Serialize;

use crate::{
    TuneError,
    bench::{Bench, Fit, TrialPlace},
    policy::{Policy, tune_of},
    settle::{may_adapt, planned_config},
    space::{journal_value, settings, space},
    tuner::checked_space,
};

/// Points of a range without a step, where a whole space is counted.
const CELLS: u64 = 1;

/// What a space needs.
#[derive(Clone, Debug, Serialize)]
pub struct Survey {
    /// Points that were planned.
    pub points: Vec<Surveyed>,
    /// Whether they are all points of the space.
    pub is_whole: bool,
    /// The limit that they were planned for, if it is known.
    pub limit_bytes: Option<Bytes>,
}

/// A point of a survey.
#[derive(Clone, Debug, Serialize)]
pub struct Surveyed {
    /// Its parameters.
    pub parameters: std::collections::BTreeMap<String, serde_json::Value>,
    /// What its plan says.
    #[serde(flatten)]
    pub result: SurveyResult,
}

/// What the plan of a point says.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum SurveyResult {
    /// It fits.
    Fits {
        /// The planned peak.
        planned_peak_bytes: Bytes,
    },
    /// It fits with other settings, which keep the mathematics.
    Adapted {
        /// The planned peak with them.
        planned_peak_bytes: Bytes,
        /// The settings.
        settings: Vec<String>,
    },
    /// It does not fit.
    TooLarge {
        /// The planned peak.
        planned_peak_bytes: Bytes,
    },
    /// The configuration or the program refuses it.
    Refused {
        /// Why.
        reason: String,
    },
}

/// Plans points of a configuration's space: all of them if there are at most `most`, else as many that cover it evenly.
/// `is_stopped` is asked before each, and `planned` gets each number of finished ones.
///
/// # Errors
/// As [`Tuner::open`](crate::Tuner::open).
pub fn survey<B: Bench>(
    bench: &B,
    config: &Config,
    place: &TrialPlace,
    most: usize,
    mut planned: impl FnMut(usize, usize) -> bool,
) -> Result<Survey, TuneError> {
    let tune = tune_of(config)?;
    let entries = checked_space(bench, config)?;
    let space = space(&entries)?;
    Policy::new(config, tune, space.clone())?;
    let has_ranges = space.parameters().iter().any(|it| it.domain.count().is_none());
    let whole = space.grid_points(CELLS).filter(|points| !has_ranges && *points <= most as u64);
    let points: Vec<Point> = match whole {
        Some(points) => (0..points).map(|index| space.grid_point(index, CELLS)).collect(),
        None => (0..most)
            .filter_map(|number| {
                let draw = Draw { seed: tune.seed, number, round: 0 };
                Sobol.propose(&space, &[], Direction::Minimize, draw).into_iter().next()
            })
            .collect(),
    };
    let mut survey = Survey { points: Vec::new(), is_whole: whole.is_some(), limit_bytes: place.limit_bytes };
    for (index, point) in points.iter().enumerate() {
        if !planned(index, points.len()) {
            survey.is_whole = false;
            break;
        }
        survey.points.push(surveyed(bench, config, tune, &entries, place, point));
    }
    Ok(survey)
}

fn surveyed<B: Bench>(
    bench: &B,
    config: &Config,
    tune: &Tune,
    entries: &[SpaceEntry],
    place: &TrialPlace,
    point: &Point,
) -> Surveyed {
    let values = settings(entries, point);
    let parameters = values.iter().map(|(key, value)| (key.clone(), journal_value(value))).collect();
    let planned = planned_config(config, tune, &values, Some(place));
    let result = match planned.and_then(|config| bench.plan(&config, may_adapt(tune))) {
        Ok(Fit::Fits { peak_bytes }) => SurveyResult::Fits { planned_peak_bytes: peak_bytes },
        Ok(Fit::Adapted { peak_bytes, settings }) => SurveyResult::Adapted {
            planned_peak_bytes: peak_bytes,
            settings: settings.iter().map(|(key, value)| format!("{key}={value}")).collect(),
        },
        Ok(Fit::TooLarge { peak_bytes, .. }) => SurveyResult::TooLarge { planned_peak_bytes: peak_bytes },
        Err(refusal) => SurveyResult::Refused { reason: refusal.message },
    };
    Surveyed { parameters, result }
}

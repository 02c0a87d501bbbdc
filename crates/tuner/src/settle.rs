//! Deciding the point of a new trial, with its memory in view.

use oomph_config::{
    Config, Value,
    sections::tune::{OnTooLarge, Tune},
};
use oomph_search::{Draw, Point};
use oomph_study::{Change, Claim, Decision, DecisionKind};

use crate::{
    TuneError, TuneEvent,
    bench::{Bench, Fit, Refusal, TrialPlace},
    notes::{ADAPTED, PLANNED, note},
    space::{journal_value, settings, with_settings},
    take::{Basis, decision},
    tuner::Tuner,
};

/// How often new candidates are drawn where none of the first fits.
const ROUNDS: u64 = 4;

/// What becomes of a candidate.
enum Verdict {
    Taken(Fit),
    TooLarge { violation: f64, reason: String },
    Refused(Refusal),
}

/// A candidate of a new trial.
struct Candidate {
    point: Point,
    rank: usize,
    round: u64,
}

impl<B: Bench> Tuner<'_, B> {
    /// The configuration of a point, to plan it: with the largest limit that a trial can get.
    pub(crate) fn point_config(&self, settings: &[(String, Value)]) -> Result<Config, Refusal> {
        planned_config(self.config, self.tune, settings, self.rooms.largest().as_ref())
    }
}

/// Decides the points of new trials.
pub(crate) struct Settling<'t, 'a, B> {
    pub(crate) tuner: &'t Tuner<'a, B>,
}

impl<B: Bench> Settling<'_, '_, B> {
    /// Decides the point of a reserved or enqueued trial, and records it. Whether the trial is to be trained.
    pub(crate) fn settle(&self, claim: &Claim, basis: &Basis) -> Result<bool, TuneError> {
        let avoids = self.tuner.tune.on_too_large == OnTooLarge::Avoid;
        let fixed = {
            let study = self.tuner.study();
            let trial = study.state().trials().get(claim.number);
            trial.map(|trial| self.tuner.policy.fixed(&trial.fixed())).unwrap_or_default()
        };
        let mut first = None;
        for round in 0u64..if avoids && fixed.is_empty() { ROUNDS } else { 1 } {
            let points = self.candidates(claim.number, basis, &fixed, round);
            for (rank, point) in points.into_iter().enumerate() {
                let candidate = Candidate { point, rank, round };
                let verdict = self.judge(&candidate.point);
                match verdict {
                    Verdict::TooLarge { .. } if avoids && fixed.is_empty() => {
                        first.get_or_insert((candidate, verdict));
                    }
                    verdict => return self.record_point(claim, basis, candidate, verdict),
                }
                if self.tuner.stop.is_requested() {
                    return Ok(false);
                }
            }
        }
        match first {
            // None fits: the trial stands for the best candidate.
            Some((candidate, verdict)) => self.record_point(claim, basis, candidate, verdict),
            None => {
                let change = Change::Fail { reason: "the sampler has no point left".into() };
                self.tuner.study().record(claim, vec![change])?;
                Ok(false)
            }
        }
    }

    fn candidates(&self, number: usize, basis: &Basis, fixed: &Point, round: u64) -> Vec<Point> {
        let draw = Draw { seed: self.tuner.policy.seed, number, round };
        match round {
            0 if !basis.candidates.is_empty() => basis.candidates.clone(),
            _ => self.tuner.policy.candidates(&basis.trials, fixed, draw),
        }
    }

    /// Plans a point.
    fn judge(&self, point: &Point) -> Verdict {
        let config = match self.tuner.point_config(&settings(&self.tuner.entries, point)) {
            Ok(config) => config,
            Err(refusal) => return Verdict::Refused(refusal),
        };
        match self.tuner.bench.plan(&config, may_adapt(self.tuner.tune)) {
            Err(refusal) => Verdict::Refused(refusal),
            Ok(Fit::TooLarge { peak_bytes, limit_bytes }) => Verdict::TooLarge {
                violation: (peak_bytes.get() as f64 / limit_bytes.get().max(1) as f64 - 1.0)
                    .max(f64::MIN_POSITIVE),
                reason: format!("the planned peak of {peak_bytes} exceeds the limit of {limit_bytes}"),
            },
            Ok(fit) => Verdict::Taken(fit),
        }
    }

    fn record_point(
        &self,
        claim: &Claim,
        basis: &Basis,
        candidate: Candidate,
        verdict: Verdict,
    ) -> Result<bool, TuneError> {
        let Candidate { point, rank, round } = candidate;
        let (rank, rounds) = (rank as u64, round);
        let decision = decision(DecisionKind::Begin, basis.seen, self.tuner.policy.sampler_name);
        let settle = Change::Settle(point, Decision { rank, rounds, ..decision });
        let number = claim.number;
        let (changes, event) = match verdict {
            Verdict::Taken(fit) => {
                let changes = plan_notes(&fit).into_iter().chain([settle]).collect();
                self.tuner.note_plan(number, fit);
                (changes, None)
            }
            Verdict::TooLarge { violation, reason } => {
                let event = TuneEvent::TooLarge { trial: number, reason: reason.clone() };
                (vec![settle, Change::Infeasible { violation, reason }], Some(event))
            }
            Verdict::Refused(refusal) => {
                let reason = format!("refused: {}", refusal.message);
                let event = TuneEvent::Failed { trial: number, reason: reason.clone() };
                (vec![settle, Change::Fail { reason }], Some(event))
            }
        };
        self.tuner.study().record(claim, changes)?;
        let trains = event.is_none();
        event.into_iter().for_each(|event| self.tuner.tell(event));
        Ok(trains)
    }
}

/// What the journal keeps of a plan.
pub(crate) fn plan_notes(fit: &Fit) -> Vec<Change> {
    match fit {
        Fit::Fits { peak_bytes } => vec![note(PLANNED, peak_bytes.get())],
        Fit::Adapted { peak_bytes, settings } => {
            let settings = settings.iter().map(|(key, value)| (key.clone(), journal_value(value)));
            vec![note(PLANNED, peak_bytes.get()), note(ADAPTED, serde_json::Value::from_iter(settings))]
        }
        Fit::TooLarge { .. } => Vec::new(),
    }
}

/// The configuration with which a trial is planned: alone at a place.
pub(crate) fn planned_config(
    config: &Config,
    tune: &Tune,
    settings: &[(String, Value)],
    place: Option<&TrialPlace>,
) -> Result<Config, Refusal> {
    let reaction = if may_adapt(tune) { "adapt" } else { "stop" };
    let of_place = place.map(TrialPlace::settings).unwrap_or_default();
    let more = of_place.into_iter().chain([("memory.on_oom", Value::from(reaction))]);
    Ok(with_settings(config, settings, more)?)
}

/// Whether a trial that does not fit gets other settings.
pub(crate) fn may_adapt(tune: &Tune) -> bool {
    tune.on_too_large == OnTooLarge::Adapt
}

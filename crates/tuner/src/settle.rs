//! Deciding the point of a new trial, with its memory in view.

use oomph_config::{
    Config, Value,
    sections::tune::{OnTooLarge, Tune},
};
use oomph_search::{Draw, Point};
use oomph_study::{Change, Claim, Decision, DecisionKind};

use crate::{
    TuneError, TuneEvent,
    bench::{Bench, Fit, Refusal},
    space::{journal_value, settings},
    take::{Basis, decision},
    tuner::Tuner,
};

/// How often new candidates are drawn where none of the first fits.
const ROUNDS: u64 = 4;

/// Attributes of a trial.
pub(crate) const PLANNED: &str = "oomph:planned_peak_bytes";
pub(crate) const ADAPTED: &str = "oomph:adapted";

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
        let mut all: Vec<(&str, Value)> =
            settings.iter().map(|(key, value)| (&**key, value.clone())).collect();
        all.push(on_oom(self.tune));
        if let Some(place) = self.rooms.largest() {
            all.extend(place.settings());
        }
        self.config.at_point(&all).map_err(Refusal::from)
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
        let fixed = self.fixed(claim);
        let mut first = None;
        for round in 0u64..if avoids && fixed.is_empty() { ROUNDS } else { 1 } {
            let points = self.candidates(claim.number, basis, &fixed, round);
            for (rank, point) in points.into_iter().enumerate() {
                let candidate = Candidate { point, rank, round };
                let verdict = self.judge(&candidate.point)?;
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

    /// The values that whoever enqueued the trial demands. Those that the space does not have are left out.
    fn fixed(&self, claim: &Claim) -> Point {
        let study = self.tuner.study();
        let fixed = study.state().trials().get(claim.number).map(|trial| trial.fixed()).unwrap_or_default();
        let value = |(name, value): (String, serde_json::Value)| {
            let entry = self.tuner.entries.iter().find(|entry| entry.key == name)?;
            Some((
                name,
                oomph_study::Distribution::Known(self.tuner.policy.space.get(&entry.key)?.domain.clone())
                    .internal(&value)?,
            ))
        };
        fixed.into_iter().filter_map(value).collect()
    }

    fn candidates(&self, number: usize, basis: &Basis, fixed: &Point, round: u64) -> Vec<Point> {
        let draw = Draw { seed: self.tuner.policy.seed, number, round };
        let points = match round {
            0 if !basis.candidates.is_empty() => basis.candidates.clone(),
            _ => self.tuner.policy.propose(&basis.trials, draw),
        };
        match (fixed.is_empty(), points.first()) {
            (true, _) => points,
            (false, Some(first)) => vec![self.tuner.policy.complete(first, fixed, draw)],
            (false, None) => vec![self.tuner.policy.complete(&Point::new(), fixed, draw)],
        }
    }

    /// Plans a point.
    fn judge(&self, point: &Point) -> Result<Verdict, TuneError> {
        let config = match self.tuner.point_config(&settings(&self.tuner.entries, point)) {
            Ok(config) => config,
            Err(refusal) => return Ok(Verdict::Refused(refusal)),
        };
        let may_adapt = self.tuner.tune.on_too_large == OnTooLarge::Adapt;
        Ok(match self.tuner.bench.plan(&config, may_adapt) {
            Err(refusal) => Verdict::Refused(refusal),
            Ok(Fit::TooLarge { peak_bytes, limit_bytes }) => Verdict::TooLarge {
                violation: (peak_bytes.get() as f64 / limit_bytes.get().max(1) as f64 - 1.0)
                    .max(f64::MIN_POSITIVE),
                reason: format!("the planned peak of {peak_bytes} exceeds the limit of {limit_bytes}"),
            },
            Ok(fit) => Verdict::Taken(fit),
        })
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
                let changes = plan_attributes(&fit).into_iter().chain([settle]).collect();
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
pub(crate) fn plan_attributes(fit: &Fit) -> Vec<Change> {
    let attribute = |key: &str, value| Change::Attribute { key: key.to_owned(), value };
    match fit {
        Fit::Fits { peak_bytes } => vec![attribute(PLANNED, peak_bytes.get().into())],
        Fit::Adapted { peak_bytes, settings } => {
            let settings = settings.iter().map(|(key, value)| (key.clone(), journal_value(value)));
            vec![
                attribute(PLANNED, peak_bytes.get().into()),
                attribute(ADAPTED, serde_json::Value::from_iter(settings)),
            ]
        }
        Fit::TooLarge { .. } => Vec::new(),
    }
}

/// The setting with which a trial is planned: whether it may be adapted.
pub(crate) fn on_oom(tune: &Tune) -> (&'static str, Value) {
    let reaction = if tune.on_too_large == OnTooLarge::Adapt { "adapt" } else { "stop" };
    ("memory.on_oom", Value::from(reaction))
}

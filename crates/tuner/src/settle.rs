//! Deciding the point of a new trial, with its memory in view.

use oomph_config::{Config, Value, sections::tune::OnTooLarge};
use oomph_search::{Draw, Point};
use oomph_study::{Change, Claim, Decision, DecisionKind};

use crate::{
    TuneError, TuneEvent,
    bench::{Bench, Fit, Refusal},
    space::{journal_value, settings},
    take::Basis,
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
    /// Decides the point of a reserved or enqueued trial, and records it. Whether the trial is to be trained.
    pub(crate) fn settle(&self, claim: &Claim, basis: &Basis) -> Result<bool, TuneError> {
        let avoids = self.tune.on_too_large == OnTooLarge::Avoid;
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
                if self.stop.is_requested() {
                    return Ok(false);
                }
            }
        }
        match first {
            // None fits: the trial stands for the best candidate.
            Some((candidate, verdict)) => self.record_point(claim, basis, candidate, verdict),
            None => {
                let change = Change::Fail { reason: "the sampler has no point left".into() };
                self.study().record(claim, vec![change])?;
                Ok(false)
            }
        }
    }

    /// The values that whoever enqueued the trial demands. Those that the space does not have are left out.
    fn fixed(&self, claim: &Claim) -> Point {
        let study = self.study();
        let fixed = study.state().trials().get(claim.number).map(|trial| trial.fixed()).unwrap_or_default();
        let value = |(name, value): (String, serde_json::Value)| {
            let entry = self.entries.iter().find(|entry| entry.key == name)?;
            Some((
                name,
                oomph_study::Distribution::Known(self.policy.space.get(&entry.key)?.domain.clone())
                    .internal(&value)?,
            ))
        };
        fixed.into_iter().filter_map(value).collect()
    }

    fn candidates(&self, number: usize, basis: &Basis, fixed: &Point, round: u64) -> Vec<Point> {
        let draw = Draw { seed: self.policy.seed, number, round };
        let points = match round {
            0 if !basis.candidates.is_empty() => basis.candidates.clone(),
            _ => self.policy.propose(&basis.trials, draw),
        };
        match (fixed.is_empty(), points.first()) {
            (true, _) => points,
            (false, Some(first)) => vec![self.policy.complete(first, fixed, draw)],
            (false, None) => vec![self.policy.complete(&Point::new(), fixed, draw)],
        }
    }

    /// Plans a point.
    fn judge(&self, point: &Point) -> Result<Verdict, TuneError> {
        let config = match self.point_config(&settings(&self.entries, point)) {
            Ok(config) => config,
            Err(refusal) => return Ok(Verdict::Refused(refusal)),
        };
        let may_adapt = self.tune.on_too_large == OnTooLarge::Adapt;
        Ok(match self.bench.plan(&config, may_adapt) {
            Err(refusal) => Verdict::Refused(refusal),
            Ok(Fit::TooLarge { peak_bytes, limit_bytes }) => Verdict::TooLarge {
                violation: (peak_bytes.get() as f64 / limit_bytes.get().max(1) as f64 - 1.0)
                    .max(f64::MIN_POSITIVE),
                reason: format!("the planned peak of {peak_bytes} exceeds the limit of {limit_bytes}"),
            },
            Ok(fit) => Verdict::Taken(fit),
        })
    }

    /// The configuration of a point, to plan it: with the largest limit that a trial can get.
    pub(crate) fn point_config(&self, settings: &[(String, Value)]) -> Result<Config, Refusal> {
        let mut all: Vec<(&str, Value)> =
            settings.iter().map(|(key, value)| (&**key, value.clone())).collect();
        all.push(("memory.on_oom", Value::from("stop")));
        if let Some(place) = self.rooms.largest() {
            all.extend(place.settings());
        }
        self.config.at_point(&all).map_err(Refusal::from)
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
        let decision = self.decision(DecisionKind::Begin, basis.seen, self.policy.sampler_name);
        let settle = Change::Settle(point, Decision { rank, rounds, ..decision });
        let number = claim.number;
        let (changes, event) = match verdict {
            Verdict::Taken(fit) => {
                let changes = plan_attributes(&fit).into_iter().chain([settle]).collect();
                self.note_plan(number, fit);
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
        self.study().record(claim, changes)?;
        let trains = event.is_none();
        event.into_iter().for_each(|event| self.tell(event));
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

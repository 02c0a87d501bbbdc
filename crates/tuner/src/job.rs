//! Working on a trial: from the claim to a pause, an end or a failure.

use std::collections::BTreeMap;

use oomph_config::{Config, Value};
use oomph_core::{Bytes, printable};
use oomph_search::Point;
use oomph_study::{Change, Claim, DecisionKind, Seen, StudyError};

use crate::{
    TuneError, TuneEvent,
    bench::{Bench, Fit, Refusal, Request},
    child::{Child, ChildExit},
    cleanup,
    length::Length,
    news::{Ended, Ending, Meter, News, Shortage},
    notes::{MEASURED, RUN, SECONDS, TrialNotes, note},
    rooms::Grant,
    settle::{Settling, plan_notes},
    space::{journal_value, settings, with_settings},
    take::{Basis, Job, decision},
    tuner::{Tuner, is_lease_lost},
};

/// A decided trial, and how far it is to be trained now.
struct Work {
    claim: Claim,
    seen: Seen,
    point: Point,
    /// Settings beside the point's, which make it fit.
    adapted: Vec<(String, Value)>,
    peak_bytes: Bytes,
    /// Epochs or steps after which its value was measured last.
    from: u64,
    /// Where it pauses or ends.
    until: u64,
}

/// What a training came to.
enum Outcome {
    Paused { value: f64 },
    Complete { value: f64 },
    Pruned(Seen),
    Released,
    OutOfMemory(Option<Shortage>),
    Failed(String),
}

/// What was heard from a training.
struct Heard {
    meter: Meter,
    ending: Option<Ending>,
    error: Option<String>,
    shortage: Option<Shortage>,
    /// What the scheduler saw when it ended the trial before its end.
    pruned: Option<Seen>,
}

/// The work of a slot on one trial after the other.
pub(crate) struct TrialWork<'t, 'a, B> {
    pub(crate) tuner: &'t Tuner<'a, B>,
}

impl<B: Bench> TrialWork<'_, '_, B> {
    /// Works on a claimed trial.
    ///
    /// # Errors
    /// The journal fails. That another worker took the trial is none.
    pub(crate) fn do_job(&self, job: Job) -> Result<(), TuneError> {
        let Job { claim, basis } = job;
        let done = self.try_job(&claim, &basis);
        let is_lost = matches!(&done, Err(TuneError::Study(error)) if is_lease_lost(error));
        self.tuner.ends(&claim);
        if is_lost {
            self.tuner.tell(TuneEvent::Released { trial: claim.number });
            return Ok(());
        }
        done
    }

    fn try_job(&self, claim: &Claim, basis: &Basis) -> Result<(), TuneError> {
        let is_decided =
            self.tuner.study().state().trials().get(claim.number).is_some_and(|trial| trial.is_decided());
        let settling = Settling { tuner: self.tuner };
        if !is_decided && !settling.settle(claim, basis)? {
            return if self.tuner.stop.is_requested() { self.release(claim) } else { Ok(()) };
        }
        let mut work = match self.work_of(claim, basis.seen) {
            Ok(work) => work,
            Err(reason) => return self.fail(claim, reason),
        };
        // A training that runs out of memory is adapted, and tried again once.
        for is_last in [false, true] {
            let Some(grant) = self.tuner.rooms.wait_for(work.peak_bytes, || self.is_unwanted(claim)) else {
                return self.release(claim);
            };
            match self.train(&work, &grant)? {
                Outcome::OutOfMemory(shortage) if !is_last => {
                    let Some(settings) = self.adapt_after(&mut work, shortage)? else {
                        return self.fail(
                            claim,
                            "out of memory, and no setting that keeps the mathematics fits".into(),
                        );
                    };
                    self.tuner.tell(TuneEvent::Adapted { trial: claim.number, settings });
                }
                outcome => return self.conclude(&work, outcome),
            }
        }
        Ok(())
    }

    /// What is to be done for a trial that has a point, or why it cannot be trained here.
    fn work_of(&self, claim: &Claim, seen: Seen) -> Result<Work, String> {
        let (point, mut adapted, reached, from) = {
            let study = self.tuner.study();
            let state = study.state();
            let Some(trial) = state.trials().get(claim.number) else {
                return Err("the journal lost it".into());
            };
            let measured = trial.intermediate.last_key_value().and_then(|(at, _)| u64::try_from(*at).ok());
            let reached = state.jobs().reached(claim.number);
            (trial.point.clone(), TrialNotes::of(trial).settings(), reached, measured.unwrap_or(0))
        };
        let fit = match self.tuner.known_plan(claim.number) {
            Some(fit) => fit,
            // Another process decided it, perhaps on another machine.
            None => match self.plan_again(&point, &adapted) {
                Ok(fit) => fit,
                Err(refusal) => return Err(format!("refused: {}", refusal.message)),
            },
        };
        let peak_bytes = match &fit {
            Fit::Fits { peak_bytes } => *peak_bytes,
            Fit::Adapted { peak_bytes, settings } => {
                for (key, value) in settings {
                    set(&mut adapted, key, value.clone());
                }
                *peak_bytes
            }
            Fit::TooLarge { peak_bytes, limit_bytes } => {
                return Err(format!(
                    "its planned peak of {peak_bytes} exceeds the limit of {limit_bytes} here"
                ));
            }
        };
        self.tuner.note_plan(claim.number, fit);
        let until = self.tuner.policy.until(claim.number, reached);
        Ok(Work { claim: claim.clone(), seen, point, adapted, peak_bytes, from, until })
    }

    fn plan_again(&self, point: &Point, adapted: &[(String, Value)]) -> Result<Fit, Refusal> {
        let mut all = settings(&self.tuner.entries, point);
        all.extend(adapted.iter().cloned());
        self.tuner.bench.plan(&self.tuner.point_config(&all)?, true)
    }

    /// Trains a trial up to its next pause, or its end.
    fn train(&self, work: &Work, grant: &Grant<'_>) -> Result<Outcome, TuneError> {
        let number = work.claim.number;
        let config = match self.trial_config(work, grant) {
            Ok(config) => config,
            Err(refusal) => return Ok(Outcome::Failed(format!("refused: {}", refusal.message))),
        };
        let whole = self.tuner.policy.whole;
        let pause_at = Some(Length { count: work.until, ..whole }).filter(|until| until.count < whole.count);
        let request = Request { name: config.name().to_owned(), config: config.to_toml(), pause_at };
        self.tuner.tell(TuneEvent::Trains {
            trial: number,
            parameters: named(&settings(&self.tuner.entries, &work.point)),
            attempt: work.claim.attempt,
            from: work.from,
            until: work.until,
            planned_peak_bytes: work.peak_bytes,
            adapted: named(&work.adapted),
        });
        let mut child = Child::start(self.tuner.bench.command(), &request).map_err(TuneError::Start)?;
        self.tuner.trains(&work.claim, child.stopper());
        let heard = self.listen(work, &mut child);
        if heard.is_err() {
            child.stopper().stop();
            while child.next().is_some() {}
        }
        let exit = child.wait();
        let heard = heard?;
        self.note_measures(work, &heard)?;
        Ok(self.outcome(heard, exit, pause_at))
    }

    /// Hears a training to its end, and reports its values.
    fn listen(&self, work: &Work, child: &mut Child) -> Result<Heard, TuneError> {
        let meter = Meter::new(self.tuner.tune.metric, self.tuner.policy.whole.unit);
        let mut heard = Heard { meter, ending: None, error: None, shortage: None, pruned: None };
        let trial = work.claim.number;
        while let Some(news) = child.next() {
            if let Some((at, value)) = heard.meter.hear(&news) {
                self.report(work, at, value)?;
                if heard.pruned.is_none() {
                    heard.pruned = self.ends_early(work, at);
                    heard.pruned.iter().for_each(|_| child.stopper().stop());
                }
            }
            match news {
                News::Step(_) | News::Started { .. } => {
                    let Meter { step, steps, .. } = heard.meter;
                    self.tuner.tell(TuneEvent::Progress { trial, step, steps });
                }
                News::Done(ending) => heard.ending = Some(ending),
                News::Error { message, causes, out_of_memory } => {
                    heard.error = Some([vec![message], causes].concat().join(": "));
                    heard.shortage = out_of_memory;
                }
                News::Eval(_) | News::Other => {}
            }
        }
        Ok(heard)
    }

    /// Records a value, unless the journal has it already: a resumed training tells what it measured before.
    fn report(&self, work: &Work, at: u64, value: f64) -> Result<(), TuneError> {
        let known = self
            .tuner
            .study()
            .state()
            .trials()
            .get(work.claim.number)
            .and_then(|trial| trial.intermediate.get(&(at as i64)).copied());
        if value.is_finite() && known != Some(value) {
            let change = Change::Report { step: at, value };
            self.tuner.study().record(&work.claim, vec![change])?;
            self.tuner.tell(TuneEvent::Value { trial: work.claim.number, at, value });
        }
        Ok(())
    }

    /// What the scheduler saw, if it ends a trial before its end.
    fn ends_early(&self, work: &Work, at: u64) -> Option<Seen> {
        let study = self.tuner.study();
        let state = study.state();
        let seen = Seen { records: state.records(), ..work.seen };
        self.tuner.policy.stops(state, work.claim.number, seen, at).then_some(seen)
    }

    fn outcome(&self, heard: Heard, exit: ChildExit, pause_at: Option<Length>) -> Outcome {
        let Heard { meter, ending, error, shortage, pruned } = heard;
        let metric = self.tuner.tune.metric.name();
        match (exit, ending) {
            (ChildExit::OutOfMemory, _) => Outcome::OutOfMemory(shortage),
            (_, Some(Ending { ended: Ended::Complete | Ended::EarlyStopping | Ended::Callback, .. })) => {
                match meter.value(None) {
                    Some(value) => Outcome::Complete { value },
                    None => Outcome::Failed(format!("its training measured no {metric}")),
                }
            }
            (_, Some(Ending { ended: Ended::Paused, step, .. })) => match meter.value(pause_at) {
                Some(value) => Outcome::Paused { value },
                None => Outcome::Failed(format!(
                    "the {metric} was not measured after step {step}, where trials are compared: `train.eval_every` \
                     must evaluate there"
                )),
            },
            (_, Some(Ending { ended: Ended::Interrupted | Ended::Terminated, .. })) => match pruned {
                Some(seen) => Outcome::Pruned(seen),
                None if self.tuner.stop.is_requested() => Outcome::Released,
                None => Outcome::Failed("its process was told to stop by a signal".into()),
            },
            (ChildExit::Failed(how), None) => match error {
                Some(error) => Outcome::Failed(printable(error)),
                // Stopped before it could save.
                None if self.tuner.stop.is_requested() => Outcome::Released,
                None => Outcome::Failed(how),
            },
            (ChildExit::Success, None) if self.tuner.stop.is_requested() => Outcome::Released,
            (ChildExit::Success, None) => Outcome::Failed("its process told no end of the training".into()),
        }
    }

    fn note_measures(&self, work: &Work, heard: &Heard) -> Result<(), TuneError> {
        let run = format!("trials/{:05}", work.claim.number);
        let mut changes = vec![note(RUN, run)];
        changes.extend(heard.meter.peak_bytes.map(|peak| note(MEASURED, peak)));
        let seconds = heard.ending.as_ref().and_then(|ending| ending.seconds);
        changes.extend(seconds.map(|seconds| note(SECONDS, seconds)));
        Ok(self.tuner.study().record(&work.claim, changes)?)
    }

    fn conclude(&self, work: &Work, outcome: Outcome) -> Result<(), TuneError> {
        let trial = work.claim.number;
        let (change, event) = match outcome {
            Outcome::Paused { value } if value.is_finite() => (
                Change::Pause { step: work.until, decision: None },
                TuneEvent::Paused { trial, at: work.until, value },
            ),
            Outcome::Complete { value } if value.is_finite() => {
                let best = self.is_best(value);
                (Change::Complete { value }, TuneEvent::Complete { trial, value, best })
            }
            Outcome::Paused { value } | Outcome::Complete { value } => {
                return self.fail(&work.claim, format!("its {} is {value}", self.tuner.tune.metric.name()));
            }
            Outcome::Pruned(seen) => {
                let decision = decision(DecisionKind::Prune, seen, self.tuner.policy.scheduler_name);
                let reason = "it is worse than the median of trials of the same length".into();
                (Change::Prune { reason, decision: Some(decision) }, TuneEvent::Pruned { trial })
            }
            Outcome::Released => return self.release(&work.claim),
            Outcome::OutOfMemory(_) => {
                return self.fail(&work.claim, "out of memory, with adapted settings too".into());
            }
            Outcome::Failed(reason) => return self.fail(&work.claim, reason),
        };
        self.tuner.study().record(&work.claim, vec![change])?;
        self.tuner.tell(event);
        cleanup::clean(&self.tuner.folder, self.tuner.study().state(), &self.tuner.policy, self.tuner.tune);
        Ok(())
    }

    fn is_best(&self, value: f64) -> bool {
        let study = self.tuner.study();
        let best = study.state().best().and_then(|trial| trial.value());
        best.is_none_or(|best| {
            self.tuner.policy.direction.loss(value) < self.tuner.policy.direction.loss(best)
        })
    }

    fn fail(&self, claim: &Claim, reason: String) -> Result<(), TuneError> {
        self.tuner.study().record(claim, vec![Change::Fail { reason: reason.clone() }])?;
        self.tuner.tell(TuneEvent::Failed { trial: claim.number, reason });
        Ok(())
    }

    /// Gives a trial back: whoever comes next continues it.
    fn release(&self, claim: &Claim) -> Result<(), TuneError> {
        match self.tuner.study().record(claim, vec![Change::Release]) {
            Err(error @ StudyError::LeaseLost { .. }) => drop(error),
            released => released?,
        }
        self.tuner.tell(TuneEvent::Released { trial: claim.number });
        Ok(())
    }

    fn is_unwanted(&self, claim: &Claim) -> bool {
        self.tuner.stop.is_requested() || self.tuner.is_lost(claim)
    }

    /// Settings for another try of a training that ran out of memory although its plan fitted.
    fn adapt_after(
        &self,
        work: &mut Work,
        shortage: Option<Shortage>,
    ) -> Result<Option<BTreeMap<String, serde_json::Value>>, TuneError> {
        let Some(settings) = shortage.as_ref().and_then(Shortage::settings) else { return Ok(None) };
        for (key, value) in &settings {
            set(&mut work.adapted, key, Value::of_text(value));
        }
        let Ok(Fit::Fits { peak_bytes } | Fit::Adapted { peak_bytes, .. }) =
            self.plan_again(&work.point, &work.adapted)
        else {
            return Ok(None);
        };
        work.peak_bytes = peak_bytes;
        let fit = Fit::Adapted { peak_bytes, settings: work.adapted.clone() };
        self.tuner.study().record(&work.claim, plan_notes(&fit))?;
        self.tuner.note_plan(work.claim.number, fit);
        Ok(Some(named(&work.adapted)))
    }

    /// The configuration of a trial's training.
    fn trial_config(&self, work: &Work, grant: &Grant<'_>) -> Result<Config, Refusal> {
        let mut settings = settings(&self.tuner.entries, &work.point);
        settings.extend(work.adapted.iter().cloned());
        let run = self.tuner.folder.trial(work.claim.number);
        let own = [
            ("memory.on_oom", Value::from("stop")),
            ("run.directory", Value::from(run.to_string_lossy().into_owned())),
        ];
        let of_place = grant.place.settings_within(grant.bytes);
        Ok(with_settings(self.tuner.config, &settings, own.into_iter().chain(of_place))?)
    }
}

fn set(settings: &mut Vec<(String, Value)>, key: &str, value: Value) {
    settings.retain(|(known, _)| known != key);
    settings.push((key.to_owned(), value));
}

fn named(settings: &[(String, Value)]) -> BTreeMap<String, serde_json::Value> {
    settings.iter().map(|(key, value)| (key.clone(), journal_value(value))).collect()
}

//! Limits of `--memory-limit`: what fits by plan, what does not, and what runs out in spite of it.

use std::path::Path;

use oomph_core::Generator;
use serde_json::Value;

use super::{
    program::{Place, Plan, Ran},
    tally::{End, Finding, Kind},
    training::{STEPS, Strategy, Training},
};
use crate::{
    Arena, Error,
    run_files::{self, Checkpoint},
};

/// The share by which a plan may be too low; `train` starts what exceeds its limit by no more.
const TOO_LOW: f64 = 0.02;
/// The share by which a plan may be too high.
const TOO_HIGH: f64 = 0.1;

/// A training under attack.
struct Attack<'a> {
    training: &'a Training,
    place: Place<'a>,
    /// The peak without a limit, by plan and measured.
    planned: u64,
    measured: u64,
    /// The tensors at the end of a training that nothing disturbed.
    undisturbed: Vec<(String, String)>,
}

/// Attacks a training in every way of `kinds`.
pub(super) fn attack(
    arena: &Arena,
    training: &Training,
    kinds: &[Kind],
    random: &mut Generator,
) -> Result<Vec<Finding>, Error> {
    let Training { strategy, config, batch, .. } = training;
    let place = Place::new(arena, config, *batch)?;
    let mut findings = Vec::new();
    let (attack, first) = match begin(training, place)? {
        Ok(begun) => begun,
        Err(harm) => return Ok(vec![Finding::new(*strategy, Kind::Measured, Err(harm))]),
    };
    findings.push(first);
    for kind in kinds {
        findings.push(match kind {
            Kind::Fits => attack.fits(random)?,
            Kind::Below => attack.below(random)?,
            Kind::RunsOut => attack.runs_out(random)?,
            Kind::Adapts => attack.adapts(random)?,
            Kind::Measured | Kind::Process => continue,
        });
    }
    Ok(findings)
}

/// Plans a training, and trains it without a limit.
fn begin<'a>(
    training: &'a Training,
    place: Place<'a>,
) -> Result<Result<(Attack<'a>, Finding), String>, Error> {
    let planned = match place.plan(None)? {
        Ok(plan) => plan.peak,
        Err(harm) => return Ok(Err(harm)),
    };
    let ran = place.train("whole", &[])?;
    let tensors = ran.ends_well(None).and_then(|()| tensors(&ran.run));
    let (measured, undisturbed) = match ran.peak().zip(tensors.as_ref().ok()) {
        Some((peak, tensors)) => (peak, tensors.clone()),
        None => return Ok(Err(tensors.err().unwrap_or_else(|| ran.about("names no peak")))),
    };
    let said = ran.event("started").and_then(|started| started["planned_peak_bytes"].as_u64());
    let error = planned as f64 / measured as f64 - 1.0;
    let end = if said != Some(planned) {
        Err(ran.about(&format!("plans {said:?}, but `plan` {planned}")))
    } else if !(-TOO_LOW..TOO_HIGH).contains(&error) {
        Err(ran.about(&format!("has a peak of {measured}; planned were {planned}, {:+.2} %", error * 100.0)))
    } else {
        Ok(End::Within)
    };
    let mut finding = Finding::new(training.strategy, Kind::Measured, end);
    finding.plan_error = Some(error);
    Ok(Ok((Attack { training, place, planned, measured, undisturbed }, finding)))
}

/// The tensors of the newest checkpoint.
fn tensors(run: &Path) -> Result<Vec<(String, String)>, String> {
    let checkpoint = run_files::linked(run, "latest")?;
    if checkpoint.step() != STEPS as u64 {
        return Err(format!("{}: is of step {}", checkpoint.path.display(), checkpoint.step()));
    }
    Ok(checkpoint.trained().into_iter().map(|(file, sum)| (file.clone(), sum.clone())).collect())
}

/// A share of bytes.
fn share(bytes: u64, share: f64) -> u64 {
    (bytes as f64 * share).ceil() as u64
}

impl Attack<'_> {
    fn finding(&self, kind: Kind, end: Result<End, String>) -> Finding {
        Finding::new(self.training.strategy, kind, end)
    }

    /// Trains within a limit that the plan fits with its margin; sometimes in two parts.
    fn fits(&self, random: &mut Generator) -> Result<Finding, Error> {
        let limit = share(self.planned, 1.01 + 0.04 * f64::from(random.uniform()));
        let plan = match self.place.plan(Some(limit))? {
            Ok(plan) if plan.fits => plan,
            Ok(plan) => {
                let harm = format!("`plan` calls {} too much for a limit of {limit}", plan.peak);
                return Ok(self.finding(Kind::Fits, Err(harm)));
            }
            Err(harm) => return Ok(self.finding(Kind::Fits, Err(harm))),
        };
        let in_parts = random.chance(0.3);
        let text = limit.to_string();
        let steps = if in_parts { "train.steps=3".to_owned() } else { format!("train.steps={STEPS}") };
        let ran = self.place.train("fits", &["--memory-limit", &text, "--set", &steps])?;
        let mut end = ran.ends_well(Some(limit));
        if in_parts && end.is_ok() {
            end = self.resume("fits", self.planned * 2)?;
        } else if end.is_ok() && !self.training.is_free {
            end = self.has_same_bytes(&ran);
        }
        let mut finding = self.finding(Kind::Fits, end.map(|()| End::Within));
        finding.is_resumed = in_parts && finding.end == End::Within && !self.training.is_free;
        finding.plan_error =
            (!in_parts).then(|| ran.peak()).flatten().map(|peak| plan.peak as f64 / peak as f64 - 1.0);
        Ok(finding)
    }

    /// Trains within a limit below the plan. What `plan` says of it must come true.
    fn below(&self, random: &mut Generator) -> Result<Finding, Error> {
        let limit = share(self.planned, [0.95, 0.95, 0.8, 0.8, 0.5][random.below(5)]);
        let ran = self.place.train("below", &["--memory-limit", &limit.to_string()])?;
        let plan = self.place.plan(Some(limit))?;
        let end = match plan {
            Err(harm) => Err(harm),
            Ok(Plan { fits: true, .. }) => ran.ends_well(Some(limit)).map(|()| End::Within),
            // Up to the planner's error `train` starts, and may run out.
            Ok(Plan { peak, .. }) if peak as f64 <= limit as f64 * (1.0 + TOO_LOW) => {
                if ran.answer.is_success() {
                    ran.ends_well(Some(limit)).map(|()| End::Within)
                } else {
                    ran.report(self.place.folder.path()).map(|_| End::Refused)
                }
            }
            Ok(_) => self.is_refused(&ran, limit, random)?.map(|()| End::Refused),
        };
        Ok(self.finding(Kind::Below, end))
    }

    /// Whether a training was refused before it began, with proposals that hold.
    fn is_refused(&self, ran: &Ran, limit: u64, random: &mut Generator) -> Result<Result<(), String>, Error> {
        let report = match ran.report(&self.place.folder.at("out-of-memory")) {
            Ok(report) => report,
            Err(harm) => return Ok(Err(harm)),
        };
        if ran.run.exists() {
            return Ok(Err(ran.about("was refused, and left a run directory")));
        }
        if report["is_measured"] != Value::Bool(false) {
            return Ok(Err(ran.about("was refused with a report of something measured")));
        }
        let proposals: Vec<_> = report["levers"].as_array().into_iter().flatten().collect();
        if proposals.is_empty() || random.chance(0.4) {
            return Ok(Ok(()));
        }
        self.holds(proposals[random.below(proposals.len())], limit)
    }

    /// Trains with the settings of a proposal, within the limit it was made for.
    fn holds(&self, proposal: &Value, limit: u64) -> Result<Result<(), String>, Error> {
        let settings = proposal["settings"].as_array().into_iter().flatten();
        let settings: Vec<_> = settings
            .map(|pair| format!("{}={}", pair[0].as_str().unwrap_or("?"), pair[1].as_str().unwrap_or("?")))
            .collect();
        let mut words = vec!["--memory-limit".to_owned(), limit.to_string()];
        words.extend(settings.into_iter().flat_map(|setting| ["--set".into(), setting]));
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let ran = self.place.train("proposed", &words)?;
        Ok(ran.ends_well(Some(limit)).map_err(|harm| format!("a proposal does not hold: {harm}")))
    }

    /// Trains without asking the plan, within a limit below what was measured, and resumes what is left.
    fn runs_out(&self, random: &mut Generator) -> Result<Finding, Error> {
        let limit = share(self.measured, [0.98, 0.95, 0.9, 0.7][random.below(4)]);
        let ran = self.place.train("short", &["--memory-limit", &limit.to_string(), "--no-plan-check"])?;
        // The limit lets `auto` choose less, and threads do not always meet at the same peak.
        if ran.answer.is_success() {
            return Ok(self.finding(Kind::RunsOut, ran.ends_well(Some(limit)).map(|()| End::Within)));
        }
        let kept = ran.report(&self.place.folder.at("short")).and_then(|report| is_kept(&ran, &report));
        let (end, is_resumed) = match kept {
            Err(harm) => (Err(harm), false),
            // It ended before its run began.
            Ok(()) if !ran.run.join("config.toml").is_file() => (Ok(End::Refused), false),
            Ok(()) => {
                let resumed = self.resume("short", self.planned.max(self.measured) * 2)?;
                let is_resumed = resumed.is_ok() && !self.training.is_free;
                (resumed.map(|()| End::Refused), is_resumed)
            }
        };
        let mut finding = self.finding(Kind::RunsOut, end);
        finding.is_resumed = is_resumed;
        Ok(finding)
    }

    /// Resumes a run with a larger limit, and compares its end with that of an undisturbed training.
    fn resume(&self, run: &str, limit: u64) -> Result<Result<(), String>, Error> {
        let steps = format!("train.steps={STEPS}");
        let ran = self.place.resume(run, &["--memory-limit", &limit.to_string(), "--set", &steps])?;
        Ok(ran.ends_well(Some(limit)).and_then(|()| match self.training.is_free {
            // Its first part had other micro-batches.
            true => tensors(&ran.run).map(drop),
            false => self.has_same_bytes(&ran),
        }))
    }

    fn has_same_bytes(&self, ran: &Ran) -> Result<(), String> {
        let found = tensors(&ran.run).map_err(|problem| ran.about(&problem))?;
        if found != self.undisturbed {
            return Err(ran.about("ends with other tensors than an undisturbed training"));
        }
        Ok(())
    }

    /// Trains within a limit below the plan, with leave to adapt.
    fn adapts(&self, random: &mut Generator) -> Result<Finding, Error> {
        let limit = share(self.measured, [0.95, 0.85, 0.7][random.below(3)]);
        let text = limit.to_string();
        let mut words = vec!["--memory-limit", &text, "--set", "memory.on_oom=adapt"];
        if random.chance(0.5) {
            words.push("--no-plan-check");
        }
        let ran = self.place.train("adapted", &words)?;
        if ran.answer.is_success() {
            let end = ran.ends_well(Some(limit)).and_then(|()| match tensors(&ran.run) {
                Ok(_) => Ok(End::Within),
                Err(problem) => Err(ran.about(&problem)),
            });
            return Ok(self.finding(Kind::Adapts, end));
        }
        let end = ran.report(self.place.folder.path()).and_then(|report| match applicable(&report) {
            Some(lever) => Err(ran.about(&format!("does not take what its report proposes, {lever}"))),
            None => Ok(End::Refused),
        });
        Ok(self.finding(Kind::Adapts, end))
    }
}

/// A proposal that a training with leave to adapt may take.
fn applicable(report: &Value) -> Option<String> {
    let may = ["memory.micro_batch", "train.eval_batch", "memory.lean", "memory.recompute"];
    let is_applicable = |lever: &&Value| {
        let mut settings = lever["settings"].as_array().into_iter().flatten();
        settings.all(|pair| pair[0].as_str().is_some_and(|key| may.contains(&key)))
    };
    let lever = report["levers"].as_array().into_iter().flatten().find(is_applicable)?;
    Some(lever["settings"].to_string())
}

/// Whether what a report says is kept is there, whole; and where it says nothing, whether nothing was saved.
fn is_kept(ran: &Ran, report: &Value) -> Result<(), String> {
    let Some(path) = find(&report["kept"], "checkpoint").and_then(Value::as_str) else {
        return match run_files::linked(&ran.run, "latest") {
            Ok(saved) => Err(ran.about(&format!("does not say that it keeps {}", saved.path.display()))),
            Err(_) => Ok(()),
        };
    };
    let path = ran.run.parent().unwrap_or(&ran.run).join(path);
    let checkpoint = Checkpoint::read(&path).map_err(|problem| ran.about(&problem))?;
    match find(&report["kept"], "step").and_then(Value::as_u64) {
        Some(step) if step == checkpoint.step() => Ok(()),
        step => Err(ran.about(&format!(
            "keeps step {step:?}, but {} is of {}",
            path.display(),
            checkpoint.step()
        ))),
    }
}

/// The value of a key at any depth.
fn find<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    let object = value.as_object()?;
    object.get(key).or_else(|| object.values().find_map(|value| find(value, key)))
}

/// The kinds that a case tries.
pub(super) const KINDS: [Kind; 4] = [Kind::Fits, Kind::Below, Kind::RunsOut, Kind::Adapts];

/// The strategy of a case: each as often as the others, and one device twice.
pub(super) fn strategy_of(number: usize) -> Strategy {
    use Strategy::{Ddp, Dp, Model, Pipeline, Single};
    [Single, Ddp, Dp, Model, Pipeline, Single, Ddp][number % 7]
}

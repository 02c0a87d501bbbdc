//! The search for the combination of levers that fits in the least time.

use oomph_config::{Change, MicroBatch, Recompute, sections::offload::Offload};
use oomph_core::{Bytes, threads::map};
use oomph_engine::session::{Session, SplitKey, StepSplit, fixed_split};

use super::{
    super::chooser::{Chooser, Fitting},
    combinations::Combination,
};
use crate::error::PlanError;

/// A combination of levers that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The changes of the configuration.
    pub changes: Vec<Change>,
    /// The planned need of the fullest device.
    pub planned_peak_bytes: Bytes,
    /// Planned seconds of a step. Only ratios mean something where the speed of the device is not known.
    pub seconds: f64,
}

/// A search over combinations of levers. Plans are made once, for all limits.
pub(crate) struct Search<'a> {
    session: &'a Session,
    /// Samples of a step.
    batch: usize,
    /// The split of a step without a limit.
    fixed: StepSplit,
    candidates: Vec<Candidate<'a>>,
}

struct Candidate<'a> {
    /// The least time that it may take, in steps of what counts as the same time.
    floor: i64,
    combination: &'a Combination,
    chooser: Chooser<'a>,
}

impl<'a> Search<'a> {
    /// A search over these combinations. Those that may take the least time come first, as a search ends where no later one can beat
    /// what it found; of those that may take the same time, one with fewer switches.
    ///
    /// # Errors
    /// If the model cannot be planned.
    pub(crate) fn new(
        combinations: &'a [Combination],
        session: &'a Session,
        key: SplitKey,
        limit_bytes: Bytes,
    ) -> Result<Self, PlanError> {
        let fixed = fixed_split(session, session.share_of(key.batch));
        let chooser = |it: &'a Combination| Chooser::new(&it.session, key.batch, key.backend, limit_bytes);
        let choosers: Vec<Chooser<'a>> = combinations.iter().map(chooser).collect();
        let seconds = map(&choosers, |chooser| chooser.plans.seconds(fixed.micro_batch, &fixed.recompute));
        let seconds: Vec<f64> = seconds.into_iter().collect::<Result<_, _>>()?;
        let least = seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let floor = |seconds: f64| ((seconds / least).ln() / Fitting::TIE).round() as i64;
        let all = combinations.iter().zip(choosers).zip(seconds);
        let mut candidates: Vec<Candidate<'a>> = all
            .map(|((combination, chooser), seconds)| Candidate {
                floor: floor(seconds),
                combination,
                chooser,
            })
            .collect();
        candidates.sort_by_key(|candidate| (candidate.floor, candidate.combination.changes.len()));
        Ok(Self { session, batch: key.batch, fixed, candidates })
    }

    pub(crate) fn set_limit(&mut self, limit_bytes: Bytes) {
        self.candidates.iter_mut().for_each(|candidate| candidate.chooser.set_limit(limit_bytes));
    }

    /// The combination that fits in the least time; `None` if none fits.
    pub(crate) fn fastest(&self) -> Result<Option<Fitted>, PlanError> {
        let mut best: Option<(usize, Fitting)> = None;
        let mut first = 0;
        while let Some(floor) = self.candidates.get(first).map(|it| it.floor) {
            let alike = self.candidates[first..].iter().take_while(|it| it.floor == floor).count();
            let below = best.as_ref().map_or(f64::INFINITY, |(_, best)| best.seconds);
            let found =
                map(&self.candidates[first..first + alike], |it| it.chooser.fastest(&self.fixed, below));
            for (index, found) in (first..).zip(found) {
                let below = best.as_ref().map_or(f64::INFINITY, |(_, best)| best.seconds);
                let is_whole = |it: &Fitting| self.candidates[index].is_whole(&it.split);
                if let Some(found) = found?.filter(|found| is_whole(found) && found.beats(below)) {
                    best = Some((index, found));
                }
            }
            first += alike;
        }
        Ok(best.map(|(index, Fitting { split, peak_bytes, seconds })| Fitted {
            changes: self.changes(&self.candidates[index], &split),
            planned_peak_bytes: peak_bytes,
            seconds,
        }))
    }

    /// The changes of the combination with the lowest planned peak, where none fits.
    pub(crate) fn leanest(&self) -> Result<Vec<Change>, PlanError> {
        Ok(self.leanest_of_all()?.map(|(_, changes)| changes).unwrap_or_default())
    }

    /// The lowest planned peak of any combination.
    pub(crate) fn leanest_peak(&self) -> Result<Bytes, PlanError> {
        Ok(self.leanest_of_all()?.map(|(peak, _)| peak).unwrap_or_default())
    }

    fn leanest_of_all(&self) -> Result<Option<(Bytes, Vec<Change>)>, PlanError> {
        let fixed = &self.fixed;
        let found = map(&self.candidates, |it| -> Result<_, PlanError> {
            let split = it.chooser.leanest(fixed)?;
            Ok((it.chooser.plans.peak(split.micro_batch, &split.recompute)?, split))
        });
        let mut best: Option<(Bytes, Vec<Change>)> = None;
        for (candidate, found) in self.candidates.iter().zip(found) {
            let (peak, split) = found?;
            if candidate.is_whole(&split) && best.as_ref().is_none_or(|(least, _)| peak < *least) {
                best = Some((peak, self.changes(candidate, &split)));
            }
        }
        Ok(best)
    }

    /// The changes of the configuration for a combination and a split.
    fn changes(&self, candidate: &Candidate<'_>, split: &StepSplit) -> Vec<Change> {
        let memory = &self.session.config.memory;
        let is_auto = memory.micro_batch == Some(MicroBatch::Auto);
        let micro_batch = (split.micro_batch < self.fixed.micro_batch || is_auto)
            .then_some(Change::MicroBatch(MicroBatch::Samples(split.micro_batch)));
        let recompute = recompute_of(&split.recompute, &self.session.stages);
        let is_left = matches!(memory.recompute, Recompute::None | Recompute::Auto);
        let recompute = (is_left && memory.recompute != recompute).then_some(Change::Recompute(recompute));
        let switches = candidate.combination.changes.iter().cloned();
        // A micro-batch may be larger than the configured batch, where another one is planned.
        let is_larger = micro_batch.is_some() && split.micro_batch > self.session.config.train.batch;
        let batch = is_larger.then_some(Change::Batch(self.batch));
        [batch, micro_batch, recompute].into_iter().flatten().chain(switches).collect()
    }
}

impl Candidate<'_> {
    /// Whether its switches have something to work on: without a recomputed stage no input waits in host memory.
    fn is_whole(&self, split: &StepSplit) -> bool {
        let Offload { activations, .. } = self.combination.session.config.memory.offload;
        !activations || split.recompute.contains(&true)
    }
}

/// The setting that recomputes these stages.
fn recompute_of(chosen: &[bool], stages: &[String]) -> Recompute {
    if !chosen.contains(&true) {
        return Recompute::None;
    }
    if chosen.iter().all(|chosen| *chosen) {
        return Recompute::Stages;
    }
    let named = stages.iter().zip(chosen).filter(|(_, chosen)| **chosen);
    Recompute::Named(named.map(|(name, _)| name.clone()).collect())
}

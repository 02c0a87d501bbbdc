use std::{cell::OnceCell, ops::Range};

use oomph_config::{Change, ConfigError, Sharing};
use oomph_core::Bytes;
use oomph_engine::session::{Session, SplitKey, largest_train_batch};
use oomph_plan::Backend;
use oomph_timeline::Timeline;

use super::{
    levers::{LEVERS, Lever, lever_of},
    report::Advice,
};
use crate::{
    check::check_training,
    error::PlanError,
    planning::{
        Levers, PlanOptions, Search, combinations, fitted, plan, plan_evaluation, planned_peak,
        seconds_per_sample, usual_splits, with_split_points,
    },
    varied::varied,
};

/// A lever that costs less than this share of time is as good as any combination.
const CHEAP: f64 = 0.05;

/// All advice for a training that does not fit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Advised {
    /// Advice that makes the training fit. Advice that keeps the mathematics comes first, sorted by time.
    pub levers: Vec<Advice>,
    /// The advice with the lowest planned peak, if none makes the training fit.
    pub least: Option<Advice>,
}

/// Advice that makes a session's training fit into `available_bytes`, with the planned peak and the cost of each.
/// Executes nothing.
///
/// Each lever is planned alone first. The combination of those that keep the mathematics with the least time is added, as
/// `memory.fit = "auto"` chooses it, unless one of them alone costs next to nothing. If nothing fits yet, each other lever is
/// added to them, and at last all levers are combined. Every lever takes its weakest candidate that fits. Plans must fit with
/// the margin; if none does, plans without margin count.
pub fn advise(session: &Session, available_bytes: Bytes, backend: Backend) -> Advised {
    advise_on(Subject::Training, session, available_bytes, backend)
}

/// As [`advise`], for a training of this batch, or for an evaluation.
pub fn advise_on(subject: Subject, session: &Session, available_bytes: Bytes, backend: Backend) -> Advised {
    // What `memory.fit` chose is where the levers begin.
    let options =
        PlanOptions { backend: Some(backend), limit_bytes: Some(available_bytes), ..PlanOptions::default() };
    let Ok(session) = &fitted(session, options) else { return Advised::default() };
    // Finding new split points for every setting would be slow and would not save memory.
    let splits = usual_splits(session);
    if splits.is_empty() && parameters_exceed(session, available_bytes) {
        return Advised::default();
    }
    let seconds = OnceCell::new();
    let mut advisor =
        Advisor { subject, session, available_bytes, backend, margin: backend.margin(), splits, seconds };
    let advised = advisor.advise();
    if !advised.levers.is_empty() {
        return advised;
    }
    advisor.margin = 0.0;
    advisor.advise()
}

/// Whether the parameters alone exceed the memory, or with replicas a rank's shard of them. No lever makes them smaller, so none
/// needs a plan: the plans of a model far too large take a minute.
fn parameters_exceed(session: &Session, available_bytes: Bytes) -> bool {
    let ranks = match &session.config.device.sharing {
        Sharing::Ddp(_) => session.world_size() as u64,
        _ => 1,
    };
    let least = |bytes: Bytes| Bytes::new(bytes.get() / ranks.max(1));
    session.summary(1).is_ok_and(|summary| least(summary.parameter_bytes) > available_bytes)
}

/// The kind of work that must fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Subject {
    /// A training, with its evaluations.
    #[default]
    Training,
    /// A training whose batch stays.
    TrainingOfBatch,
    /// An evaluation alone: no gradients and no optimizer.
    Evaluation,
}

impl Subject {
    /// The planned timeline of the session.
    ///
    /// # Errors
    /// If the session cannot be planned.
    pub fn plan(self, session: &Session, options: PlanOptions) -> Result<Timeline, PlanError> {
        match self {
            Self::Training | Self::TrainingOfBatch => plan(session, options),
            Self::Evaluation => plan_evaluation(session, options),
        }
    }

    /// Whether a lever changes its memory, and may be moved.
    fn has(self, lever: &Lever) -> bool {
        match self {
            Self::Training => true,
            Self::TrainingOfBatch => !lever.changes_batch,
            Self::Evaluation => lever.is_for_evaluation,
        }
    }

    /// The planned peak of the fullest device.
    fn peak_bytes(self, session: &Session, options: PlanOptions) -> Result<Bytes, PlanError> {
        match self {
            Self::Training | Self::TrainingOfBatch => planned_peak(session, options),
            Self::Evaluation => Ok(self.plan(session, options)?.needed_bytes()),
        }
    }
}

/// Levers with their changes, and the planned peak with all of them.
#[derive(Clone)]
struct Move {
    levers: Vec<MovedLever>,
    peak_bytes: Bytes,
}

#[derive(Clone)]
struct MovedLever {
    lever: &'static Lever,
    changes: Vec<Change>,
}

/// A candidate that was planned.
#[derive(Clone, Copy)]
struct PlannedPoint {
    /// The size that the candidate sets.
    size: f64,
    peak_bytes: f64,
}

impl Move {
    fn keeps_mathematics(&self) -> bool {
        self.levers.iter().all(|moved| moved.lever.keeps_mathematics)
    }

    fn changes(&self) -> Vec<Change> {
        self.levers.iter().flat_map(|moved| moved.changes.clone()).collect()
    }
}

struct Advisor<'a> {
    subject: Subject,
    session: &'a Session,
    available_bytes: Bytes,
    backend: Backend,
    /// The bytes to keep free, as a share of the planned peak.
    margin: f64,
    /// The splits to plan with, if the model is split.
    splits: Vec<Vec<Range<usize>>>,
    /// The estimated seconds per sample without changes.
    seconds: OnceCell<Option<f64>>,
}

impl Advisor<'_> {
    fn advise(&self) -> Advised {
        let Some(unmoved) = self.moved(Vec::new()) else { return Advised::default() };
        let is_cpu = matches!(self.backend, Backend::Cpu { .. });
        let helps = |lever: &&Lever| self.subject.has(lever) && !(lever.is_for_gpus && is_cpu);
        let levers = LEVERS.iter().filter(helps);
        let levers: Vec<&'static Lever> = levers.collect();
        let (keeping, changing): (Vec<_>, Vec<_>) =
            levers.iter().copied().partition(|lever| lever.keeps_mathematics);
        let advice = |found| self.advice(found);
        let singles = levers.iter().filter_map(|lever| self.weakest(lever, &unmoved));
        let mut found: Vec<Advice> = singles.map(advice).collect();
        // Where one lever costs next to nothing, a combination saves no time worth the search.
        if !found.iter().any(|single| single.keeps_mathematics && single.slowdown < CHEAP) {
            let is_new = |fastest: &Move| found.iter().all(|single| single.changes != fastest.changes());
            found.extend(self.fastest().filter(is_new).map(advice));
        }
        if !found.iter().any(|found| found.keeps_mathematics) {
            found.extend(self.together(&keeping, &unmoved).ok().map(advice));
        }
        if found.is_empty() {
            let with_one = changing.into_iter().map(|lever| [&keeping[..], &[lever]].concat());
            found.extend(with_one.filter_map(|levers| self.together(&levers, &unmoved).ok()).map(advice));
        }
        let mut least = None;
        if found.is_empty() {
            match self.together(&levers, &unmoved) {
                Ok(all) => found.push(advice(all)),
                Err(all) => least = Some(advice(all)),
            }
        }
        found.sort_by(|one, other| {
            let changes = |advice: &Advice| !advice.keeps_mathematics;
            changes(one).cmp(&changes(other)).then(one.slowdown.total_cmp(&other.slowdown))
        });
        Advised { levers: found, least }
    }

    /// The session with changes, and with `available_bytes` as its limit, which `auto` uses.
    fn varied(&self, changes: &[Change]) -> Result<Session, ConfigError> {
        let mut session = varied(self.session, changes)?;
        session.limit_bytes = Some(self.available_bytes);
        Ok(session)
    }

    /// The planned peak of some levers; `None` if the session cannot be planned with them.
    fn moved(&self, levers: Vec<MovedLever>) -> Option<Move> {
        let mut moved = Move { levers, peak_bytes: Bytes::default() };
        let session = self.varied(&moved.changes()).ok()?;
        let options = PlanOptions { backend: Some(self.backend), ..PlanOptions::default() };
        let peak_bytes = |session: &Session| self.subject.peak_bytes(session, options).ok();
        moved.peak_bytes = match self.splits[..] {
            [] => peak_bytes(&session)?,
            _ => self
                .splits
                .iter()
                .filter_map(|split| peak_bytes(&with_split_points(&session, split)))
                .min()?,
        };
        Some(moved)
    }

    /// Whether the model can be trained on a whole epoch, including its smaller last batch, which plans do not have.
    fn is_allowed(&self, moved: &Move) -> bool {
        let check = |session: Session| check_training(&session).is_ok();
        self.subject == Subject::Evaluation || self.varied(&moved.changes()).is_ok_and(check)
    }

    /// The largest planned peak that fits.
    fn available(&self) -> f64 {
        self.available_bytes.get() as f64 / (1.0 + self.margin)
    }

    fn fits(&self, moved: &Move) -> bool {
        moved.peak_bytes.get() as f64 <= self.available()
    }

    /// A lever on top of other moves.
    fn with_lever(&self, lever: &'static Lever, changes: &[Change], on: &Move) -> Option<Move> {
        let moved = MovedLever { lever, changes: changes.to_vec() };
        self.moved(on.levers.iter().cloned().chain([moved]).collect())
    }

    /// The strongest candidate that can be trained, and its number. A batch of 1 may be too small for batch
    /// normalisation.
    fn strongest(&self, lever: &'static Lever, on: &Move) -> Option<(usize, Move)> {
        /// No model refuses more than this number of candidates at the end.
        const MOST_REFUSED: usize = 8;
        let candidates = (lever.candidates)(self.session);
        let last = candidates.iter().enumerate().rev().take(MOST_REFUSED);
        let mut last = last.filter_map(|(number, candidate)| {
            Some((number, self.with_lever(lever, &candidate.changes, on)?))
        });
        last.find(|(_, moved)| self.is_allowed(moved))
    }

    /// The weakest candidate that fits, if one does. Peaks fall from candidate to candidate, nearly in proportion to
    /// its size.
    fn weakest(&self, lever: &'static Lever, on: &Move) -> Option<Move> {
        let (last, strongest) = self.strongest(lever, on).filter(|(_, moved)| self.fits(moved))?;
        let candidates = (lever.candidates)(self.session);
        // No candidate before `from` fits; the candidate `to` fits.
        let (mut from, mut to, mut best) = (0, last, strongest);
        let mut above: Option<PlannedPoint> = None;
        let mut turn = 0;
        while from < to {
            turn += 1;
            let guess = match above {
                // Where peaks bend, the line alone would move on by small steps.
                Some(above) if turn % 4 != 0 => {
                    let below =
                        PlannedPoint { size: candidates[to].size, peak_bytes: best.peak_bytes.get() as f64 };
                    let size = self.size_that_fits(above, below);
                    let smaller = (from..to).find(|candidate| candidates[*candidate].size <= size);
                    smaller.unwrap_or(to - 1)
                }
                // The weakest candidate is often close to the current setting.
                _ if turn == 1 => from,
                _ => from.midpoint(to),
            };
            let moved = self.with_lever(lever, &candidates[guess].changes, on);
            let peak = moved.as_ref().map(|moved| moved.peak_bytes.get() as f64);
            match moved.filter(|moved| self.fits(moved) && self.is_allowed(moved)) {
                Some(moved) => (to, best) = (guess, moved),
                None => {
                    let size = candidates[guess].size;
                    above = peak.map(|peak_bytes| PlannedPoint { size, peak_bytes }).or(above);
                    from = guess + 1;
                }
            }
        }
        Some(best)
    }

    /// The largest size that fits, by the line through a point above the limit and one below.
    fn size_that_fits(&self, above: PlannedPoint, below: PlannedPoint) -> f64 {
        let slope = (above.peak_bytes - below.peak_bytes) / (above.size - below.size).max(f64::MIN_POSITIVE);
        below.size + (self.available() - below.peak_bytes) / slope.max(f64::MIN_POSITIVE)
    }

    /// The combination of levers that fits in the least time, of those that keep the mathematics: the choice of `memory.fit`.
    fn fastest(&self) -> Option<Move> {
        if self.subject == Subject::Evaluation || !self.splits.is_empty() {
            return None;
        }
        let session = self.varied(&[]).ok()?;
        let levers = Levers::that_keep_mathematics(&session, self.backend);
        let limit_bytes = Bytes::new((self.available() * (1.0 + self.backend.margin())) as u64);
        let (batch, backend) = (largest_train_batch(&session), self.backend);
        let key = SplitKey { batch, backend, limit_bytes: Some(limit_bytes) };
        let combinations = combinations(&session, levers);
        let found = Search::new(&combinations, &session, key, limit_bytes).ok()?.fastest().ok()??;
        let of = |change: Change| Some(MovedLever { lever: lever_of(&change)?, changes: vec![change] });
        let moved = self.moved(found.changes.into_iter().map(of).collect::<Option<Vec<_>>>()?)?;
        Some(moved).filter(|moved| !moved.levers.is_empty() && self.fits(moved) && self.is_allowed(moved))
    }

    /// Combines levers, each with its weakest candidate that still fits. The first levers are weakened first.
    ///
    /// # Errors
    /// All levers with their strongest candidates, if these do not fit.
    fn together(&self, levers: &[&'static Lever], unmoved: &Move) -> Result<Move, Move> {
        let mut all = unmoved.clone();
        for lever in levers {
            if let Some((_, strongest)) = self.strongest(lever, &all) {
                all = strongest;
            }
        }
        // A lever may raise the peak beside another: micro-batches keep gradients that would be released.
        while !self.fits(&all) {
            let without = all.levers.iter().filter_map(|moved| self.without(moved.lever, &all));
            match without.min_by_key(|without| without.peak_bytes) {
                Some(lower) if lower.peak_bytes < all.peak_bytes => all = lower,
                _ => return Err(all),
            }
        }
        for lever in levers {
            let Some(without) = self.without(lever, &all) else { continue };
            let weaker = if self.fits(&without) { Some(without) } else { self.weakest(lever, &without) };
            all = weaker.filter(|weaker| self.is_allowed(weaker)).unwrap_or(all);
        }
        Ok(all)
    }

    /// `all` without a lever.
    fn without(&self, lever: &Lever, all: &Move) -> Option<Move> {
        self.moved(all.levers.iter().filter(|other| other.lever.name != lever.name).cloned().collect())
    }

    fn advice(&self, moved: Move) -> Advice {
        let changes = moved.changes();
        let is_training = self.subject != Subject::Evaluation;
        let seconds = |session: &Session| seconds_per_sample(session, self.backend).filter(|_| is_training);
        let before = self.seconds.get_or_init(|| seconds(self.session));
        let after = self.varied(&changes).ok().and_then(|session| seconds(&session));
        Advice {
            levers: moved.levers.iter().map(|moved| moved.lever.name.to_owned()).collect(),
            settings: changes.iter().map(Change::setting).collect(),
            changes,
            planned_peak_bytes: moved.peak_bytes,
            slowdown: after.zip(*before).map_or(0.0, |(after, before)| after / before - 1.0),
            keeps_mathematics: moved.keeps_mathematics(),
            about: moved
                .levers
                .iter()
                .map(|moved| (moved.lever.about)(self.session))
                .collect::<Vec<_>>()
                .join("; "),
        }
    }
}

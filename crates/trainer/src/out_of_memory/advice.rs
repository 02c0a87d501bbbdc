use std::{cell::OnceCell, ops::Range};

use oomph_core::Bytes;
use oomph_memory::Timeline;
use oomph_plan::Backend;
use serde::{Deserialize, Serialize};

use super::levers::{LEVERS, Lever, Rungs};
use crate::{
    PlanOptions, Session, SessionError, TrainError, plan,
    planning::{plan_evaluation, planned_peak, seconds_per_sample, usual_cuts},
};

/// Keys with the values that they are to have.
pub(super) type Settings = Vec<(String, String)>;

/// Something to change, and what comes of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// The levers it moves, such as `micro-batch`.
    pub levers: Vec<String>,
    /// Keys with the values that they are to have.
    pub settings: Vec<(String, String)>,
    /// The planned peak with them.
    pub planned_peak_bytes: Bytes,
    /// How much longer a sample takes, as a share: 0.1 is a tenth longer. Estimated from the operations of a step.
    pub slowdown: f64,
    /// Whether the training stays the same: batch, gradient and rule.
    pub keeps_mathematics: bool,
    /// What else there is to know.
    pub about: String,
}

impl Advice {
    /// The settings as arguments: `--set`, `memory.micro_batch=8` …
    pub fn flags(&self) -> Vec<String> {
        let set = |(key, value): &(String, String)| ["--set".to_owned(), format!("{key}={value}")];
        self.settings.iter().flat_map(set).collect()
    }
}

/// What can be done to fit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Advised {
    /// What makes it fit, the best first: what keeps the mathematics, and of that what costs least time.
    pub levers: Vec<Advice>,
    /// Where nothing does: what needs least.
    pub least: Option<Advice>,
}

/// What makes a session's training fit into `room_bytes`, each with its planned peak and what it costs. Nothing is
/// executed.
///
/// Every lever is tried alone; where none is enough, those that keep the mathematics together; then each of the others
/// with them, then all. Of each it is the weakest rung that fits. It is to fit with the margin that plans have, and only
/// where nothing does without.
pub fn advise(session: &Session, room_bytes: Bytes, backend: Backend) -> Advised {
    advise_on(Subject::Training, session, room_bytes, backend)
}

/// As [`advise`], for a training or for an evaluation alone.
pub(crate) fn advise_on(subject: Subject, session: &Session, room_bytes: Bytes, backend: Backend) -> Advised {
    // To cut the model anew for every setting would take long; cut anew it holds no more.
    let cuts = usual_cuts(session);
    let seconds = OnceCell::new();
    let mut advisor =
        Advisor { subject, session, room_bytes, backend, margin: backend.margin(), cuts, seconds };
    let advised = advisor.advise();
    if !advised.levers.is_empty() {
        return advised;
    }
    advisor.margin = 0.0;
    advisor.advise()
}

/// What is to fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A training, with its evaluations.
    Training,
    /// An evaluation of a model that is there: no gradients, and no optimizer.
    Evaluation,
}

impl Subject {
    /// The planned timeline of the session.
    pub(crate) fn plan(self, session: &Session, options: PlanOptions) -> Result<Timeline, TrainError> {
        match self {
            Self::Training => plan(session, options),
            Self::Evaluation => plan_evaluation(session, options),
        }
    }

    /// Its planned peak: of several devices that of the fullest.
    fn peak_bytes(self, session: &Session, options: PlanOptions) -> Result<Bytes, TrainError> {
        match self {
            Self::Training => planned_peak(session, options),
            Self::Evaluation => Ok(self.plan(session, options)?.peak().categories.total()),
        }
    }

    /// Whether a lever changes anything of it.
    fn has(self, lever: &Lever) -> bool {
        self == Self::Training || lever.is_for_evaluation
    }
}

/// Levers with what each sets, and the planned peak with all of them.
#[derive(Clone)]
struct Move {
    levers: Vec<(&'static Lever, Settings)>,
    peak_bytes: Bytes,
}

impl Move {
    fn keeps_mathematics(&self) -> bool {
        self.levers.iter().all(|(lever, _)| lever.keeps_mathematics)
    }

    fn settings(&self) -> Settings {
        self.levers.iter().flat_map(|(_, settings)| settings.clone()).collect()
    }
}

struct Advisor<'a> {
    subject: Subject,
    session: &'a Session,
    room_bytes: Bytes,
    backend: Backend,
    /// What is to stay free beside a planned peak, as a share of it.
    margin: f64,
    /// Where the model may be cut, where it lies on several devices.
    cuts: Vec<Vec<Range<usize>>>,
    /// What a sample takes as it is.
    seconds: OnceCell<Option<f64>>,
}

impl Advisor<'_> {
    fn advise(&self) -> Advised {
        let Some(unmoved) = self.moved(Vec::new()) else { return Advised::default() };
        let levers: Vec<&'static Lever> = LEVERS.iter().filter(|lever| self.subject.has(lever)).collect();
        let (keeping, changing): (Vec<_>, Vec<_>) =
            levers.iter().copied().partition(|lever| lever.keeps_mathematics);
        let mut found: Vec<Move> = levers.iter().filter_map(|lever| self.weakest(lever, &unmoved)).collect();
        if !found.iter().any(Move::keeps_mathematics) {
            found.extend(self.together(&keeping, &unmoved).ok());
        }
        if found.is_empty() {
            let with_one = changing.into_iter().map(|lever| [&keeping[..], &[lever]].concat());
            found.extend(with_one.filter_map(|levers| self.together(&levers, &unmoved).ok()));
        }
        let mut least = None;
        if found.is_empty() {
            match self.together(&levers, &unmoved) {
                Ok(all) => found.push(all),
                Err(all) => least = Some(self.advice(all)),
            }
        }
        let mut levers: Vec<Advice> = found.into_iter().map(|found| self.advice(found)).collect();
        levers.sort_by(|one, other| {
            let changes = |advice: &Advice| !advice.keeps_mathematics;
            changes(one).cmp(&changes(other)).then(one.slowdown.total_cmp(&other.slowdown))
        });
        Advised { levers, least }
    }

    /// The session with some settings, on a device that has the room: `auto` goes by it.
    fn varied(&self, settings: &[(String, String)]) -> Result<Session, SessionError> {
        let mut session = self.session.varied(settings)?;
        session.limit_bytes = Some(self.room_bytes);
        Ok(session)
    }

    /// What comes of some settings; `None` where there is no such training.
    fn moved(&self, levers: Vec<(&'static Lever, Settings)>) -> Option<Move> {
        let mut moved = Move { levers, peak_bytes: Bytes::default() };
        let session = self.varied(&moved.settings()).ok()?;
        let options = PlanOptions { backend: Some(self.backend), ..PlanOptions::default() };
        let peak_bytes = |session: &Session| self.subject.peak_bytes(session, options).ok();
        moved.peak_bytes = match self.cuts[..] {
            [] => peak_bytes(&session)?,
            _ => self.cuts.iter().filter_map(|cut| peak_bytes(&session.with_cut(cut))).min()?,
        };
        Some(moved)
    }

    /// Whether all of an epoch can be trained on, and the smaller rest of its last batch, which no plan has.
    fn is_allowed(&self, moved: &Move) -> bool {
        let check = |session: Session| session.check_training().is_ok();
        self.subject == Subject::Evaluation || self.varied(&moved.settings()).is_ok_and(check)
    }

    /// What a planned peak may be.
    fn room(&self) -> f64 {
        self.room_bytes.get() as f64 / (1.0 + self.margin)
    }

    fn fits(&self, moved: &Move) -> bool {
        moved.peak_bytes.get() as f64 <= self.room()
    }

    /// One rung of a lever on top of other moves.
    fn rung(&self, lever: &'static Lever, rungs: &Rungs, rung: usize, on: &Move) -> Option<Move> {
        self.moved(on.levers.iter().cloned().chain([(lever, (rungs.at)(rung))]).collect())
    }

    /// The strongest rung that there is a training with, and its number: a batch of one may be too small for batch
    /// normalisation.
    fn strongest(&self, lever: &'static Lever, on: &Move) -> Option<(usize, Move)> {
        /// More rungs than these at the end are not refused.
        const MOST_REFUSED: usize = 8;
        let rungs = (lever.rungs)(self.session);
        let last = (0..rungs.count).rev().take(MOST_REFUSED);
        let mut last = last.filter_map(|rung| Some((rung, self.rung(lever, &rungs, rung, on)?)));
        last.find(|(_, moved)| self.is_allowed(moved))
    }

    /// The weakest rung that fits, where one does. Peaks fall from rung to rung, nearly in proportion to its size.
    fn weakest(&self, lever: &'static Lever, on: &Move) -> Option<Move> {
        let (last, strongest) = self.strongest(lever, on).filter(|(_, moved)| self.fits(moved))?;
        let rungs = (lever.rungs)(self.session);
        // From `above` on down to `from` none fits; `to` does.
        let (mut from, mut to, mut best) = (0, last, strongest);
        let mut above: Option<(f64, f64)> = None;
        let mut turn = 0;
        while from < to {
            turn += 1;
            let line = above.map(|above| (above, ((rungs.size)(to), best.peak_bytes.get() as f64)));
            let guess = match line {
                // A bend in the line could have it creep along.
                Some(line) if turn % 4 != 0 => self.guess(&rungs, line, from, to),
                // The weakest one is often near to what there is now.
                _ if turn == 1 => from,
                _ => from.midpoint(to),
            };
            let moved = self.rung(lever, &rungs, guess, on);
            let peak = moved.as_ref().map(|moved| moved.peak_bytes.get() as f64);
            match moved.filter(|moved| self.fits(moved) && self.is_allowed(moved)) {
                Some(moved) => (to, best) = (guess, moved),
                None => {
                    above = peak.map(|peak| ((rungs.size)(guess), peak)).or(above);
                    from = guess + 1;
                }
            }
        }
        Some(best)
    }

    /// The weakest rung, from `from` up to but not including `to`, that fits by the line through a point above and one
    /// below; the last one where none does.
    fn guess(&self, rungs: &Rungs, line: ((f64, f64), (f64, f64)), from: usize, to: usize) -> usize {
        let ((large, high), (small, low)) = line;
        let room = self.room();
        let slope = (high - low) / (large - small).max(f64::MIN_POSITIVE);
        let size = small + (room - low) / slope.max(f64::MIN_POSITIVE);
        (from..to).find(|rung| (rungs.size)(*rung) <= size).unwrap_or(to - 1)
    }

    /// Some levers, each as weak as can be where all of them together are enough: the first ones first.
    ///
    /// # Errors
    /// All at their strongest, where that is not enough.
    fn together(&self, levers: &[&'static Lever], unmoved: &Move) -> Result<Move, Move> {
        let mut all = unmoved.clone();
        for lever in levers {
            if let Some((_, strongest)) = self.strongest(lever, &all) {
                all = strongest;
            }
        }
        if !self.fits(&all) {
            return Err(all);
        }
        for lever in levers {
            let others = all.levers.iter().filter(|(other, _)| other.name != lever.name).cloned().collect();
            let Some(without) = self.moved(others) else { continue };
            let weaker = if self.fits(&without) { Some(without) } else { self.weakest(lever, &without) };
            all = weaker.filter(|weaker| self.is_allowed(weaker)).unwrap_or(all);
        }
        Ok(all)
    }

    fn advice(&self, moved: Move) -> Advice {
        let settings = moved.settings();
        let is_training = self.subject == Subject::Training;
        let seconds = |session: &Session| seconds_per_sample(session, self.backend).filter(|_| is_training);
        let before = self.seconds.get_or_init(|| seconds(self.session));
        let after = self.varied(&settings).ok().and_then(|session| seconds(&session));
        Advice {
            levers: moved.levers.iter().map(|(lever, _)| lever.name.to_owned()).collect(),
            settings,
            planned_peak_bytes: moved.peak_bytes,
            slowdown: after.zip(*before).map_or(0.0, |(after, before)| after / before - 1.0),
            keeps_mathematics: moved.keeps_mathematics(),
            about: moved.levers.iter().map(|(lever, _)| lever.about).collect::<Vec<_>>().join("; "),
        }
    }
}

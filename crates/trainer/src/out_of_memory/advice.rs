use std::cell::OnceCell;

use oomph_core::Bytes;
use oomph_plan::Backend;
use serde::{Deserialize, Serialize};

use super::levers::{LEVERS, Lever, Rungs};
use crate::{PlanOptions, Session, fits, plan, planning::seconds_per_sample};

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

/// What makes a session fit into `room_bytes`, each with its planned peak and what it costs. Nothing is executed.
///
/// Every lever is tried alone, then those that keep the mathematics together, then these on top of the others. Of each
/// it is the weakest rung that fits.
pub fn advise(session: &Session, room_bytes: Bytes, backend: Backend) -> Advised {
    let advisor = Advisor { session, room_bytes, backend, seconds: OnceCell::new() };
    let Some(unmoved) = advisor.moved(Vec::new(), Vec::new()) else { return Advised::default() };
    let mut found: Vec<Move> = LEVERS.iter().filter_map(|lever| advisor.weakest(lever, &unmoved)).collect();
    if !found.iter().any(Move::keeps_mathematics) {
        found.extend(advisor.together(true, unmoved.clone()).ok());
    }
    if found.is_empty() {
        let changing = LEVERS.iter().filter(|lever| !lever.keeps_mathematics);
        let changed = changing.filter_map(|lever| advisor.strongest(lever, &unmoved));
        found.extend(changed.filter_map(|(_, changed)| advisor.together(true, changed).ok()));
    }
    let least = || match advisor.together(true, unmoved) {
        Err(keeping) => advisor.together(false, keeping).err(),
        Ok(_) => None,
    };
    let least = if found.is_empty() { least().map(|least| advisor.advice(least)) } else { None };
    let mut levers: Vec<Advice> = found.into_iter().map(|found| advisor.advice(found)).collect();
    levers.sort_by(|one, other| {
        let changes = |advice: &Advice| !advice.keeps_mathematics;
        changes(one).cmp(&changes(other)).then(one.slowdown.total_cmp(&other.slowdown))
    });
    Advised { levers, least }
}

/// Settings, the levers that they move, and the planned peak with them.
#[derive(Clone)]
struct Move {
    levers: Vec<&'static Lever>,
    settings: Settings,
    peak_bytes: Bytes,
}

impl Move {
    fn keeps_mathematics(&self) -> bool {
        self.levers.iter().all(|lever| lever.keeps_mathematics)
    }
}

struct Advisor<'a> {
    session: &'a Session,
    room_bytes: Bytes,
    backend: Backend,
    /// What a sample takes as it is.
    seconds: OnceCell<Option<f64>>,
}

impl Advisor<'_> {
    /// What comes of settings; `None` where there is no such training.
    fn moved(&self, levers: Vec<&'static Lever>, settings: Settings) -> Option<Move> {
        let session = self.session.varied(&settings).ok()?;
        let options = PlanOptions { backend: Some(self.backend), ..PlanOptions::default() };
        let timeline = plan(&session, options).ok()?;
        Some(Move { levers, settings, peak_bytes: timeline.peak().categories.total() })
    }

    /// Whether all of an epoch can be trained on, and the smaller rest of its last batch, which no plan has.
    fn is_allowed(&self, moved: &Move) -> bool {
        self.session.varied(&moved.settings).is_ok_and(|session| session.check_training().is_ok())
    }

    fn fits(&self, moved: &Move) -> bool {
        fits(moved.peak_bytes, self.room_bytes, self.backend)
    }

    /// One rung of a lever on top of other moves.
    fn rung(&self, lever: &'static Lever, rungs: &Rungs, rung: usize, on: &Move) -> Option<Move> {
        let levers = on.levers.iter().copied().chain([lever]).collect();
        let settings = on.settings.iter().cloned().chain((rungs.at)(rung)).collect();
        self.moved(levers, settings)
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
        let room = self.room_bytes.get() as f64 / (1.0 + self.backend.margin());
        let slope = (high - low) / (large - small).max(f64::MIN_POSITIVE);
        let size = small + (room - low) / slope.max(f64::MIN_POSITIVE);
        (from..to).find(|rung| (rungs.size)(*rung) <= size).unwrap_or(to - 1)
    }

    /// The levers that keep the mathematics, or the others, one on top of the other until it fits.
    ///
    /// # Errors
    /// What needs least, where it does not fit with all of them.
    fn together(&self, keeping: bool, mut on: Move) -> Result<Move, Move> {
        for lever in LEVERS.iter().filter(|lever| lever.keeps_mathematics == keeping) {
            if let Some(fitting) = self.weakest(lever, &on) {
                return Ok(fitting);
            }
            if let Some((_, strongest)) = self.strongest(lever, &on)
                && strongest.peak_bytes < on.peak_bytes
            {
                on = strongest;
            }
        }
        if self.fits(&on) { Ok(on) } else { Err(on) }
    }

    fn advice(&self, moved: Move) -> Advice {
        let keeps_mathematics = moved.keeps_mathematics();
        let varied = self.session.varied(&moved.settings).ok();
        let before = self.seconds.get_or_init(|| seconds_per_sample(self.session, self.backend));
        let after = varied.and_then(|varied| seconds_per_sample(&varied, self.backend));
        Advice {
            levers: moved.levers.iter().map(|lever| lever.name.to_owned()).collect(),
            settings: moved.settings,
            planned_peak_bytes: moved.peak_bytes,
            slowdown: after.zip(*before).map_or(0.0, |(after, before)| after / before - 1.0),
            keeps_mathematics,
            about: moved.levers.iter().map(|lever| lever.about).collect::<Vec<_>>().join("; "),
        }
    }
}

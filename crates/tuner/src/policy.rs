//! What decides: the sampler and the scheduler of a study.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use oomph_config::{
    Config,
    sections::tune::{Sampler as SamplerName, Scheduler as SchedulerName, Tune},
};
use oomph_search::{
    Asha, Direction, Draw, Grid, Hyperband, Median, Next, Point, Random, Rungs, Sampler, Scheduler, Sobol,
    Space, ToTheEnd, Tpe, Trial, Verdict, with_fixed,
};
use oomph_study::{Distribution, Seen, StoredTrial, StudyState};

use crate::{TuneError, length::Length};

/// Points of a range without a step, for the grid. The configuration refuses such ranges; this bounds them all the same.
const GRID_POINTS: u64 = 10;

/// Complete trials before the median rule stops one, as Optuna's `MedianPruner` has it.
const MEDIAN_STARTUP: usize = 5;

/// The sampler and the scheduler of a study, and the space that they search.
pub(crate) struct Policy {
    pub(crate) space: Space,
    pub(crate) direction: Direction,
    /// The length of a trial that is trained to its end.
    pub(crate) whole: Length,
    pub(crate) seed: u64,
    sampler: Box<dyn Sampler + Send + Sync>,
    scheduler: Rule,
    pub(crate) sampler_name: &'static str,
    pub(crate) scheduler_name: &'static str,
}

enum Rule {
    Asha(Asha, Rungs),
    Hyperband(Hyperband),
    Median(Median),
    None(ToTheEnd),
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {}", self.sampler_name, self.scheduler_name)
    }
}

impl Policy {
    pub(crate) fn new(config: &Config, tune: &Tune, space: Space) -> Result<Self, TuneError> {
        let direction = if tune.metric.is_maximized() { Direction::Maximize } else { Direction::Minimize };
        let [whole, first] = Length::whole_and_first(config, tune)?;
        let rungs = || Rungs::new(first.count, tune.eta as u64, whole.count);
        let max = whole.count;
        let scheduler = match tune.scheduler {
            SchedulerName::Asha => Rule::Asha(Asha::new(rungs()?, direction), rungs()?),
            SchedulerName::Hyperband => Rule::Hyperband(Hyperband::new(&rungs()?, direction)),
            SchedulerName::Median => {
                Rule::Median(Median { direction, min: first.count, startup: MEDIAN_STARTUP, max })
            }
            SchedulerName::None => Rule::None(ToTheEnd { max }),
        };
        let sampler: Box<dyn Sampler + Send + Sync> = match tune.sampler {
            SamplerName::Tpe => Box::new(Tpe::with_startup(tune.startup)),
            SamplerName::Grid => Box::new(Grid::new(GRID_POINTS)),
            SamplerName::Random => Box::new(Random),
            SamplerName::Sobol => Box::new(Sobol),
        };
        Ok(Self {
            space,
            direction,
            whole,
            seed: tune.seed,
            sampler,
            scheduler,
            sampler_name: tune.sampler.name(),
            scheduler_name: tune.scheduler.name(),
        })
    }

    fn rule(&self) -> &dyn Scheduler {
        match &self.scheduler {
            Rule::Asha(rule, _) => rule,
            Rule::Hyperband(rule) => rule,
            Rule::Median(rule) => rule,
            Rule::None(rule) => rule,
        }
    }

    /// What a free worker does; `new` is the number of the trial that would begin.
    pub(crate) fn next(&self, trials: &[Trial], new: Option<usize>) -> Next {
        self.rule().next(trials, new)
    }

    /// Whether a running trial is to end before its end. Rungs are not asked here: a trial pauses at each, and
    /// [`next`](Self::next) promotes it.
    pub(crate) fn stops(&self, state: &StudyState, number: usize, seen: Seen, step: u64) -> bool {
        if !matches!(self.scheduler, Rule::Median(_)) {
            return false;
        }
        // What the trial itself told is always seen.
        let own = state.trials().get(number).map(StoredTrial::trial);
        let others = state.view(seen).into_iter().filter(|trial| trial.number != number);
        let trials: Vec<_> = others.chain(own).collect();
        self.rule().at_step(&trials, number, step) == Verdict::Stop
    }

    /// The paused trials that may still continue.
    pub(crate) fn promotable(&self, trials: &[Trial], left: usize) -> BTreeSet<usize> {
        self.rule().promotable(trials, left)
    }

    /// The lengths at which a trial pauses, the whole one last.
    pub(crate) fn levels(&self, number: usize) -> Vec<u64> {
        match &self.scheduler {
            Rule::Asha(_, rungs) => rungs.levels().to_vec(),
            Rule::Hyperband(rule) => rule
                .brackets()
                .nth(rule.bracket_of(number))
                .map_or_else(|| vec![self.whole.count], |rungs| rungs.levels().to_vec()),
            Rule::Median(_) | Rule::None(_) => vec![self.whole.count],
        }
    }

    /// The lengths at which any trial pauses, the whole one last.
    pub(crate) fn all_levels(&self) -> Vec<u64> {
        let all: BTreeSet<u64> = match &self.scheduler {
            Rule::Hyperband(rule) => rule.brackets().flat_map(|rungs| rungs.levels().to_vec()).collect(),
            Rule::Asha(..) | Rule::Median(_) | Rule::None(_) => self.levels(0).into_iter().collect(),
        };
        all.into_iter().collect()
    }

    /// Where a trial that has paused after `reached`, or never, pauses next.
    pub(crate) fn until(&self, number: usize, reached: Option<u64>) -> u64 {
        let above = |level: &u64| reached.is_none_or(|reached| *level > reached);
        self.levels(number).into_iter().find(above).unwrap_or(self.whole.count)
    }

    /// Points for a new trial, the best first.
    pub(crate) fn propose(&self, trials: &[Trial], draw: Draw) -> Vec<Point> {
        self.sampler.propose(&self.space, trials, self.direction, draw)
    }

    /// The same for a trial that was enqueued with some values: a single point has them, and proposed ones for the rest.
    pub(crate) fn candidates(&self, trials: &[Trial], fixed: &Point, draw: Draw) -> Vec<Point> {
        let points = self.propose(trials, draw);
        if fixed.is_empty() {
            return points;
        }
        let best = points.into_iter().next().unwrap_or_default();
        vec![with_fixed(&self.space, &best, fixed, draw)]
    }

    /// The values that whoever enqueued a trial demands. Those that the space does not have are left out.
    pub(crate) fn fixed(&self, demanded: &BTreeMap<String, serde_json::Value>) -> Point {
        let value = |(name, value): (&String, &serde_json::Value)| {
            let domain = self.space.get(name)?.domain.clone();
            Some((name.clone(), Distribution::Known(domain).internal(value)?))
        };
        demanded.iter().filter_map(value).collect()
    }
}

/// The study of a configuration.
///
/// # Errors
/// It has none.
pub(crate) fn tune_of(config: &Config) -> Result<&Tune, TuneError> {
    config.tune.as_ref().ok_or_else(|| TuneError::NoTune { name: config.name().to_owned() })
}

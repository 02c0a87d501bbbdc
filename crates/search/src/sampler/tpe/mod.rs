mod axis;
mod mixture;
mod normal;
mod split;

use std::collections::HashSet;

use oomph_core::Generator;

use self::{mixture::Mixture, split::Split};
use super::{
    proposals::{PROPOSALS, Sampler, bits, by_number, distinct},
    sobol::Sobol,
};
use crate::{Direction, Draw, Parameter, Point, Space, Trial};

/// Proposes what resembles the good trials more than the others: the tree-structured Parzen estimator
/// ([Bergstra et al. 2011](https://papers.nips.cc/paper/4443-algorithms-for-hyper-parameter-optimization);
/// [Watanabe 2023](https://arxiv.org/abs/2304.11127) on its parts), as it is in Optuna 5.0.0 with its defaults.
///
/// # The algorithm
///
/// 1. Until 10 trials are complete, paused, pruned or infeasible, it is [`Sobol`]. Optuna's first points are random: these are as
///    uniform, and spread more evenly.
/// 2. Of these n trials the best min(⌈0.1 n⌉, 25) are good. Complete ones come first, by their value; then paused and pruned ones,
///    those of more steps first, then by the value of the last step; then infeasible ones, by their violation. Running trials
///    are not good ("constant liar"), so that workers side by side try different points. Waiting and failed ones do not count.
/// 3. l is a density of the good trials, g of the others: a mixture with one kernel for each trial, and a prior of weight 1. A
///    kernel is a product over parameters. Older trials than the latest 25 have weights from 1/n to 1.
///    - A number has a normal kernel, truncated to the ends. Its σ is the larger distance to a neighbour, of the outermost the
///      inner one, within [range / min(100, n + 2), range]. The prior has its μ in mid-range and σ = range. Logarithmic domains
///      are treated in the logarithm; values of a step have the mass of half a step to both sides.
///    - A choice has 1 + 1/(n + 1) for the trial's and 1/(n + 1) for each other, normalised.
/// 4. 24 candidates are drawn from l. They are proposed in the order of log l − log g, the largest first; those that a trial has
///    already come last. Optuna takes the first, whether a trial has it or not.
///
/// For the same trials and candidates, [`scores`](Self::scores) are Optuna's to 1e-10 (`tests/golden`). Where trials have equal
/// numbers, Optuna's order among them is numpy's, which depends on the processor's vector instructions; here it is the trials'.
///
/// # Conditions
///
/// Parameters that are always active together ([`Space::groups`]) have their densities together, and each group its own, of
/// those trials that have it. This is Optuna's `group=True`, which finds the groups in the trials; here the space tells them from
/// the first trial on. Proposal k joins the k-th best candidates of all groups that are active in it.
#[derive(Clone, Copy, Debug)]
pub struct Tpe {
    startup: usize,
}

impl Default for Tpe {
    /// 10 trials first that do not depend on others.
    fn default() -> Self {
        Self { startup: 10 }
    }
}

impl Tpe {
    /// The same with another number of trials first that do not depend on others.
    pub fn with_startup(startup: usize) -> Self {
        Self { startup }
    }

    /// log l − log g of each point, summed over the groups that are active in it: the larger, the more it resembles good trials
    /// rather than others. Parameters with a single value do not count.
    pub fn scores(
        &self,
        space: &Space,
        trials: &[Trial],
        direction: Direction,
        points: &[Point],
    ) -> Vec<f64> {
        let split = Split::of(by_number(trials), direction);
        let mut scores = vec![0.0; points.len()];
        for group in searched_groups(space) {
            let is_in_group =
                |point: &&Point| group.iter().all(|parameter| point.contains_key(&parameter.name));
            let rows: Vec<_> = points.iter().filter(is_in_group).map(|point| row(&group, point)).collect();
            let of_group = Densities::of(&group, &split).scores(&rows);
            let places = (0..).zip(points).filter(|(_, point)| is_in_group(point));
            for ((place, _), score) in places.zip(of_group) {
                scores[place] += score;
            }
        }
        scores
    }
}

impl Sampler for Tpe {
    fn propose(&self, space: &Space, trials: &[Trial], direction: Direction, draw: Draw) -> Vec<Point> {
        let split = Split::of(by_number(trials), direction);
        if split.finished < self.startup {
            return Sobol.propose(space, trials, direction, draw);
        }
        let groups = searched_groups(space);
        let candidates = (0..).zip(&groups).map(|(index, group)| {
            let mut generator = Generator::at(draw.key("tpe").with(index));
            Densities::of(group, &split).candidates(&mut generator)
        });
        let candidates: Vec<Vec<Vec<f64>>> = candidates.collect();
        let value = |parameter: &Parameter, proposal: usize| {
            groups.iter().zip(&candidates).find_map(|(group, rows)| {
                let column = group.iter().position(|other| other.name == parameter.name)?;
                rows.get(proposal)?.get(column).copied()
            })
        };
        let point = |proposal| {
            // A parameter of one value is in no group.
            space.fill(|parameter| value(parameter, proposal).unwrap_or(parameter.domain.bounds()[0]))
        };
        let tried: HashSet<_> = trials.iter().map(|trial| bits(&trial.point)).collect();
        let mut points = distinct((0..PROPOSALS).map(point));
        // Stable. A trial of the same point would only repeat the other.
        points.sort_by_key(|point| tried.contains(&bits(point)));
        points
    }
}

/// The groups without their parameters of one value.
fn searched_groups(space: &Space) -> Vec<Vec<&Parameter>> {
    let searched = |group: Vec<_>| -> Vec<&Parameter> {
        group.into_iter().filter(|parameter: &&Parameter| !parameter.domain.is_single()).collect()
    };
    space.groups().into_iter().map(searched).filter(|group| !group.is_empty()).collect()
}

/// The values of a group's parameters.
fn row(group: &[&Parameter], point: &Point) -> Vec<f64> {
    group.iter().filter_map(|parameter| point.get(&parameter.name).copied()).collect()
}

/// l and g of one group.
struct Densities<'a> {
    good: Mixture<'a>,
    others: Mixture<'a>,
}

impl<'a> Densities<'a> {
    fn of(group: &[&'a Parameter], split: &Split<'_>) -> Self {
        let domains: Vec<_> = group.iter().map(|parameter| &parameter.domain).collect();
        let mixture = |trials: &[&Trial]| {
            let rows = trials.iter().map(|trial| row(group, &trial.point));
            // Trials of other branches do not have the group, and those of another program may have values outside.
            let is_inside = |row: &Vec<f64>| {
                let inside = |[low, high]: [f64; 2], value: f64| (low..=high).contains(&value);
                row.len() == domains.len()
                    && domains.iter().zip(row).all(|(it, value)| inside(it.bounds(), *value))
            };
            Mixture::new(&domains, &rows.filter(is_inside).collect::<Vec<_>>())
        };
        Self { good: mixture(&split.good), others: mixture(&split.others) }
    }

    fn scores(&self, rows: &[Vec<f64>]) -> Vec<f64> {
        let [good, others] = [self.good.log_densities(rows), self.others.log_densities(rows)];
        good.iter().zip(others).map(|(good, others)| good - others).collect()
    }

    /// Candidates drawn from l, the best first; of equal ones the one that was drawn first.
    fn candidates(&self, generator: &mut Generator) -> Vec<Vec<f64>> {
        let rows: Vec<_> = (0..PROPOSALS).map(|_| self.good.draw(generator)).collect();
        let scores = self.scores(&rows);
        let mut scored: Vec<_> = scores.into_iter().zip(rows).collect();
        scored.sort_by(|(left, _), (right, _)| right.total_cmp(left));
        scored.into_iter().map(|(_, row)| row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Domain, TrialState};

    #[test]
    fn points_that_no_trial_has_come_first() {
        let integers = |high| Domain::Integer { low: 0, high, step: 1, log: false };
        let space =
            Space::new(vec![Parameter::new("a", integers(4)), Parameter::new("b", integers(4))]).unwrap();
        let mut trials: Vec<Trial> = Vec::new();
        for number in 0..60 {
            let points = Tpe::default().propose(
                &space,
                &trials,
                Direction::Minimize,
                Draw { seed: 2, number, round: 0 },
            );
            let is_tried = |point: &Point| trials.iter().any(|trial| trial.point == *point);
            assert!(number < 10 || points.is_sorted_by_key(is_tried));
            let point = points[0].clone();
            let value = Some(point["a"] - point["b"]);
            trials.push(Trial { state: TrialState::Complete, value, ..Trial::new(number, point) });
        }
        // Of the 25 points there are, the best is among the first half.
        assert!(trials.iter().take(13).any(|trial| trial.value == Some(-4.0)));
    }
}

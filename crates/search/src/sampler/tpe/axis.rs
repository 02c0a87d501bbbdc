//! One parameter of a mixture of kernels.

use libm::{exp, log};
use oomph_core::Generator;

use super::normal::{LOG_SQRT_TAU, log_mass};
use crate::{
    Domain,
    draw::{normal, uniform},
};

/// The kernels of one parameter: one for each trial, and last the prior.
pub(super) enum Axis<'a> {
    /// Of a choice.
    Choice {
        /// The trials' choices.
        chosen: Vec<usize>,
        count: usize,
    },
    /// Of a number.
    Number(Normals<'a>),
}

impl<'a> Axis<'a> {
    /// The kernels around `values`.
    pub(super) fn new(domain: &'a Domain, values: Vec<f64>) -> Self {
        match domain {
            Domain::Choice(choices) => {
                // Indices of choices: within the bounds of the domain.
                let chosen = values.into_iter().map(|value| value as usize).collect();
                Self::Choice { chosen, count: choices.len() }
            }
            _ => Self::Number(Normals::new(domain, values)),
        }
    }

    /// A value drawn from kernel `kernel`.
    pub(super) fn draw(&self, kernel: usize, generator: &mut Generator) -> f64 {
        match self {
            Self::Choice { chosen, count } => {
                // The share of the trial's own choice above that of the others: it is drawn, or else all are alike.
                let own = chosen
                    .get(kernel)
                    .map(|own| (*own, 1.0 / (1.0 + *count as f64 / (chosen.len() + 1) as f64)));
                match own {
                    Some((own, share)) if uniform(generator) < share => own as f64,
                    _ => generator.below(*count) as f64,
                }
            }
            Self::Number(normals) => normals.draw(kernel, generator),
        }
    }

    /// The logarithm of the prior's density at `value`.
    pub(super) fn log_prior(&self, value: f64) -> f64 {
        match self {
            Self::Choice { count, .. } => log(1.0 / *count as f64),
            Self::Number(normals) => normals.log_prior(value),
        }
    }

    /// At least the largest logarithm of a kernel's density.
    pub(super) fn log_most(&self) -> f64 {
        match self {
            Self::Choice { .. } => 0.0,
            Self::Number(normals) => normals.log_most(),
        }
    }

    /// Adds the logarithm of each kernel's density at each value. `sums` has one list for each value, and `floors` one number: sums
    /// that would be below it become −∞.
    pub(super) fn add_log_densities(&self, values: &[f64], floors: &[f64], sums: &mut [Vec<f64>]) {
        match self {
            Self::Choice { chosen, count } => {
                let prior = 1.0 / (chosen.len() + 1) as f64;
                let total = 1.0 + *count as f64 * prior;
                let [own, other, of_prior] =
                    [(1.0 + prior) / total, prior / total, 1.0 / *count as f64].map(log);
                for (value, sums) in values.iter().zip(sums) {
                    let of_trials =
                        chosen.iter().map(|choice| if *choice == *value as usize { own } else { other });
                    sums.iter_mut().zip(of_trials.chain([of_prior])).for_each(|(sum, term)| *sum += term);
                }
            }
            Self::Number(normals) => match normals.domain.step() {
                Some(step) => normals.add_log_masses(values, step, floors, sums),
                None => normals.add_log_curves(values, sums),
            },
        }
    }
}

/// Truncated normal kernels, in the logarithm where the domain is logarithmic.
pub(super) struct Normals<'a> {
    domain: &'a Domain,
    /// The ends, with half a step beyond them where there are steps.
    ends: [f64; 2],
    trials: Vec<Normal>,
    prior: Normal,
}

#[derive(Clone, Copy)]
struct Normal {
    mean: f64,
    sigma: f64,
    /// What is subtracted from the logarithm: of the mass between the ends, and without steps of the factors of the density.
    constant: f64,
}

impl Normal {
    fn new(domain: &Domain, ends: [f64; 2], mean: f64, sigma: f64) -> Self {
        let [low, high] = ends.map(|end| (end - mean) / sigma);
        let mass = log_mass(low, high);
        let constant = if domain.step().is_some() { mass } else { LOG_SQRT_TAU + mass + log(sigma) };
        Self { mean, sigma, constant }
    }

    /// The logarithm of the mass from `from` to `to`.
    fn log_mass(&self, from: f64, to: f64) -> f64 {
        log_mass((from - self.mean) / self.sigma, (to - self.mean) / self.sigma) - self.constant
    }

    /// At least the logarithm of the mass from `from` to `to`: all of the mass is as far from the mean as the nearer end.
    fn log_mass_at_most(&self, from: f64, to: f64) -> f64 {
        let distance = (from - self.mean).max(self.mean - to).max(0.0) / self.sigma;
        -(distance * distance) / 2.0 - self.constant
    }

    /// The logarithm of the density.
    fn log_curve(&self, value: f64) -> f64 {
        let distance = (value - self.mean) / self.sigma;
        -(distance * distance) / 2.0 - self.constant
    }
}

impl<'a> Normals<'a> {
    fn new(domain: &'a Domain, values: Vec<f64>) -> Self {
        let half_step = domain.step().map_or(0.0, |step| step / 2.0);
        let [low, high] = domain.bounds();
        let to_log = |value: f64| if domain.is_log() { log(value) } else { value };
        let ends = [to_log(low - half_step), to_log(high + half_step)];
        let means: Vec<_> = values.into_iter().map(to_log).collect();
        let sigmas = sigmas(&means, ends);
        let trials =
            means.into_iter().zip(sigmas).map(|(mean, sigma)| Normal::new(domain, ends, mean, sigma));
        let prior = Normal::new(domain, ends, 0.5 * (ends[0] + ends[1]), ends[1] - ends[0]);
        Self { domain, ends, trials: trials.collect(), prior }
    }

    fn kernels(&self) -> impl Iterator<Item = &Normal> {
        self.trials.iter().chain([&self.prior])
    }

    fn draw(&self, kernel: usize, generator: &mut Generator) -> f64 {
        let kernel = self.trials.get(kernel).unwrap_or(&self.prior);
        let [low, high] = self.ends;
        // The mean lies between the ends, and they are at least σ apart: a third of all draws at least are between them.
        let drawn = loop {
            let drawn = kernel.mean + kernel.sigma * normal(generator);
            if (low..=high).contains(&drawn) {
                break drawn;
            }
        };
        self.domain.nearest(if self.domain.is_log() { exp(drawn) } else { drawn })
    }

    fn log_prior(&self, value: f64) -> f64 {
        match self.domain.step() {
            Some(step) => {
                let [from, to] = self.around(value, step);
                self.prior.log_mass(from, to)
            }
            None => self.prior.log_curve(self.scaled(value)),
        }
    }

    fn log_most(&self) -> f64 {
        self.kernels().map(|kernel| -kernel.constant).fold(f64::NEG_INFINITY, f64::max)
    }

    fn scaled(&self, value: f64) -> f64 {
        if self.domain.is_log() { log(value) } else { value }
    }

    /// The interval of the numbers that are rounded to `value`.
    fn around(&self, value: f64, step: f64) -> [f64; 2] {
        [value - step / 2.0, value + step / 2.0].map(|end| self.scaled(end))
    }

    fn add_log_curves(&self, values: &[f64], sums: &mut [Vec<f64>]) {
        for (value, sums) in values.iter().zip(sums) {
            let value = self.scaled(*value);
            sums.iter_mut().zip(self.kernels()).for_each(|(sum, kernel)| *sum += kernel.log_curve(value));
        }
    }

    fn add_log_masses(&self, values: &[f64], step: f64, floors: &[f64], sums: &mut [Vec<f64>]) {
        // Masses are slow, and among steps many kernels and values are equal: each pair is computed once, when it is needed.
        let kernels: Vec<_> = self.kernels().collect();
        let [firsts, places] = unique(&kernels, |kernel| [kernel.mean.to_bits(), kernel.sigma.to_bits()]);
        let [rows, of_value] = unique(values, |value| value.to_bits());
        let mut masses: Vec<Vec<Option<f64>>> = vec![vec![None; firsts.len()]; rows.len()];
        for (((value, row), floor), sums) in values.iter().zip(of_value).zip(floors).zip(sums) {
            let [from, to] = self.around(*value, step);
            let masses = &mut masses[row];
            for ((sum, kernel), place) in sums.iter_mut().zip(&kernels).zip(&places) {
                *sum += match *sum + kernel.log_mass_at_most(from, to) < *floor {
                    true => f64::NEG_INFINITY,
                    false => *masses[*place].get_or_insert_with(|| kernel.log_mass(from, to)),
                };
            }
        }
    }
}

/// The indices of the first item of each kind, and for each item the place of its kind in them.
fn unique<T, K: Ord>(items: &[T], kind: impl Fn(&T) -> K) -> [Vec<usize>; 2] {
    let mut known = std::collections::BTreeMap::new();
    let mut first = Vec::new();
    let place = (0..).zip(items).map(|(index, item)| {
        *known.entry(kind(item)).or_insert_with(|| {
            first.push(index);
            first.len() - 1
        })
    });
    let places = place.collect();
    [first, places]
}

/// σ of each kernel: the larger distance to a neighbour or an end, of the outermost the distance to their only neighbour.
fn sigmas(means: &[f64], [low, high]: [f64; 2]) -> Vec<f64> {
    let count = means.len();
    let mut order: Vec<_> = (0..count).collect();
    order.sort_by(|left, right| means[*left].total_cmp(&means[*right]));
    let smallest = (high - low) / (count as f64 + 2.0).min(100.0);
    let mut sigmas = vec![0.0; count];
    for (place, index) in order.iter().enumerate() {
        let at = |place: usize| order.get(place).map(|index| means[*index]);
        let below = place.checked_sub(1).and_then(at).map(|neighbour| means[*index] - neighbour);
        let above = at(place + 1).map(|neighbour| neighbour - means[*index]);
        let sigma = match [below, above] {
            [Some(below), Some(above)] => below.max(above),
            [Some(only), None] | [None, Some(only)] => only,
            [None, None] => (means[*index] - low).max(high - means[*index]),
        };
        sigmas[*index] = sigma.clamp(smallest, high - low);
    }
    sigmas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sigmas_are_the_larger_distances_to_neighbours_within_limits() {
        assert_eq!(sigmas(&[], [0.0, 1.0]), [0.0; 0]);
        assert_eq!(sigmas(&[0.25], [0.0, 1.0]), [0.75]);
        assert_eq!(sigmas(&[6.0, 1.0, 3.0], [0.0, 10.0]), [3.0, 2.0, 3.0]);
        // At least a fifth of the range for three values.
        assert_eq!(sigmas(&[5.0, 5.0, 5.0], [0.0, 10.0]), [2.0; 3]);
    }
}

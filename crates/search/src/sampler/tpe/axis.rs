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

    /// Adds the logarithm of each kernel's density at each value: `sums` has one list for each value.
    pub(super) fn add_log_densities(&self, values: &[f64], sums: &mut [Vec<f64>]) {
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
            Self::Number(normals) => normals.add_log_densities(values, sums),
        }
    }
}

/// Truncated normal kernels, in the logarithm where the domain is logarithmic.
pub(super) struct Normals<'a> {
    domain: &'a Domain,
    /// The ends, with half a step beyond them where there are steps.
    ends: [f64; 2],
    kernels: Vec<Normal>,
}

#[derive(Clone, Copy, PartialEq)]
struct Normal {
    mean: f64,
    sigma: f64,
}

impl<'a> Normals<'a> {
    fn new(domain: &'a Domain, values: Vec<f64>) -> Self {
        let half_step = domain.step().map_or(0.0, |step| step / 2.0);
        let [low, high] = domain.bounds();
        let to_log = |value: f64| if domain.is_log() { log(value) } else { value };
        let ends = [to_log(low - half_step), to_log(high + half_step)];
        let range = ends[1] - ends[0];
        let means: Vec<_> = values.into_iter().map(to_log).collect();
        let sigmas = sigmas(&means, ends);
        let kernels = means.into_iter().zip(sigmas).map(|(mean, sigma)| Normal { mean, sigma });
        let prior = Normal { mean: 0.5 * (ends[0] + ends[1]), sigma: range };
        Self { domain, ends, kernels: kernels.chain([prior]).collect() }
    }

    fn draw(&self, kernel: usize, generator: &mut Generator) -> f64 {
        // The prior is always there, and last.
        let prior =
            || Normal { mean: 0.5 * (self.ends[0] + self.ends[1]), sigma: self.ends[1] - self.ends[0] };
        let kernel = self.kernels.get(kernel).copied().unwrap_or_else(prior);
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

    fn add_log_densities(&self, values: &[f64], sums: &mut [Vec<f64>]) {
        match self.domain.step() {
            Some(step) => self.add_log_masses(values, step, sums),
            None => self.add_log_curves(values, sums),
        }
    }

    fn log_mass_within_ends(&self, kernel: Normal) -> f64 {
        let [low, high] = self.ends.map(|end| (end - kernel.mean) / kernel.sigma);
        log_mass(low, high)
    }

    fn add_log_curves(&self, values: &[f64], sums: &mut [Vec<f64>]) {
        // What does not depend on the value.
        let constants: Vec<_> = self
            .kernels
            .iter()
            .map(|kernel| LOG_SQRT_TAU + self.log_mass_within_ends(*kernel) + log(kernel.sigma))
            .collect();
        for (value, sums) in values.iter().zip(sums) {
            let value = if self.domain.is_log() { log(*value) } else { *value };
            for ((kernel, constant), sum) in self.kernels.iter().zip(&constants).zip(sums) {
                let distance = (value - kernel.mean) / kernel.sigma;
                *sum += -(distance * distance) / 2.0 - constant;
            }
        }
    }

    fn add_log_masses(&self, values: &[f64], step: f64, sums: &mut [Vec<f64>]) {
        // Masses are slow, and among steps many kernels and values are equal.
        let [kernels, of_kernel] =
            unique(&self.kernels, |kernel| [kernel.mean.to_bits(), kernel.sigma.to_bits()]);
        let constants: Vec<_> =
            kernels.iter().map(|index| self.log_mass_within_ends(self.kernels[*index])).collect();
        let [rows, of_value] = unique(values, |value| value.to_bits());
        let masses = rows.iter().map(|row| {
            let around = [values[*row] - step / 2.0, values[*row] + step / 2.0];
            let [from, to] = if self.domain.is_log() { around.map(log) } else { around };
            let mass = |(index, constant): (&usize, &f64)| {
                let Normal { mean, sigma } = self.kernels[*index];
                log_mass((from - mean) / sigma, (to - mean) / sigma) - constant
            };
            kernels.iter().zip(&constants).map(mass).collect::<Vec<f64>>()
        });
        let masses: Vec<_> = masses.collect();
        for (row, sums) in of_value.iter().zip(sums) {
            let masses = &masses[*row];
            sums.iter_mut().zip(&of_kernel).for_each(|(sum, kernel)| *sum += masses[*kernel]);
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

//! A density of trials: a weighted sum of products of kernels.

use libm::{exp, log};
use oomph_core::Generator;

use super::axis::Axis;
use crate::{Domain, draw::uniform};

/// The latest trials that have their full weight.
const FULL_WEIGHTS: usize = 25;

/// Terms whose logarithm is smaller by this are lost in a sum: even 10,000 of them change it by less than 1e-20 of itself.
const LOST: f64 = 60.0;

/// One kernel for each trial, and last the prior.
pub(super) struct Mixture<'a> {
    /// They sum to 1.
    weights: Vec<f64>,
    axes: Vec<Axis<'a>>,
}

impl<'a> Mixture<'a> {
    /// The density of the trials with the values `rows`, the oldest first.
    pub(super) fn new(domains: &[&'a Domain], rows: &[Vec<f64>]) -> Self {
        let column = |column| rows.iter().filter_map(|row| row.get(column).copied()).collect();
        let axes = (0..).zip(domains).map(|(index, domain)| Axis::new(domain, column(index)));
        Self { weights: weights(rows.len()), axes: axes.collect() }
    }

    /// A row drawn from it.
    pub(super) fn draw(&self, generator: &mut Generator) -> Vec<f64> {
        let mut left = uniform(generator);
        let is_drawn = |weight: &f64| {
            left -= weight;
            left < 0.0
        };
        // Rounding may leave a little after the prior.
        let kernel = self.weights.iter().position(is_drawn).unwrap_or(self.weights.len() - 1);
        self.axes.iter().map(|axis| axis.draw(kernel, generator)).collect()
    }

    /// The logarithm of the density of each row.
    pub(super) fn log_densities(&self, rows: &[Vec<f64>]) -> Vec<f64> {
        let log_weights: Vec<_> = self.weights.iter().map(|weight| log(*weight)).collect();
        // Terms that are lost in the sum beside the prior's are not computed any further. A floor allows for the axes to come.
        let mut to_come: f64 = self.axes.iter().map(Axis::log_most).sum();
        let floor = |row: &Vec<f64>| {
            let prior: f64 = self.axes.iter().zip(row).map(|(axis, value)| axis.log_prior(*value)).sum();
            prior + log_weights.last().copied().unwrap_or(0.0) - LOST
        };
        let floors: Vec<_> = rows.iter().map(floor).collect();
        let mut sums = vec![log_weights.clone(); rows.len()];
        for (column, axis) in self.axes.iter().enumerate() {
            to_come -= axis.log_most();
            let floors: Vec<_> = floors.iter().map(|floor| floor - to_come).collect();
            let values: Vec<_> = rows.iter().filter_map(|row| row.get(column).copied()).collect();
            axis.add_log_densities(&values, &floors, &mut sums);
        }
        sums.iter().map(|terms| log_sum(terms)).collect()
    }
}

/// The weights of `count` trials, the oldest first, and of the prior.
fn weights(count: usize) -> Vec<f64> {
    let ramp = count.saturating_sub(FULL_WEIGHTS);
    let first = 1.0 / count as f64;
    let of_trial = |index: usize| match ramp {
        _ if index >= ramp => 1.0,
        1 => first,
        _ => first + index as f64 * ((1.0 - first) / (ramp - 1) as f64),
    };
    let weights: Vec<_> = (0..count).map(of_trial).chain([1.0]).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// log Σ exp of the terms.
fn log_sum(terms: &[f64]) -> f64 {
    let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    let terms = terms.iter().map(|term| term - largest).filter(|term| *term > -LOST);
    log(terms.map(exp).sum::<f64>()) + largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_trials_weigh_less_and_the_prior_as_much_as_a_new_one() {
        let sum = |count: usize| weights(count).iter().sum::<f64>();
        assert!([0, 1, 24, 25, 26, 27, 500].into_iter().all(|count| (sum(count) - 1.0).abs() < 1e-12));
        let relative = |count: usize| -> Vec<f64> {
            let weights = weights(count);
            weights.iter().map(|weight| weight / weights[count]).collect()
        };
        assert_eq!(relative(0), [1.0]);
        assert_eq!(relative(25), [1.0; 26]);
        let with_two = relative(27);
        assert!((with_two[0] - 1.0 / 27.0).abs() < 1e-12 && with_two[1] == 1.0);
    }
}

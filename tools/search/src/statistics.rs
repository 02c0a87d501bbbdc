//! Whether one sample is larger than another.

use libm::erfc;

/// The two-sided p of the Mann–Whitney test, by its normal approximation with corrections for ties and continuity.
pub(crate) fn mann_whitney(left: &[f64], right: &[f64]) -> f64 {
    let [n, m] = [left.len() as f64, right.len() as f64];
    let mut all: Vec<_> =
        left.iter().map(|it| (*it, true)).chain(right.iter().map(|it| (*it, false))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let [mut rank_sum, mut ties, mut before] = [0.0; 3];
    for equal in all.chunk_by(|a, b| a.0 == b.0) {
        let count = equal.len() as f64;
        // Equal values share the mean of their ranks.
        rank_sum += equal.iter().filter(|it| it.1).count() as f64 * (before + (count + 1.0) / 2.0);
        ties += count.powi(3) - count;
        before += count;
    }
    let total = n + m;
    let distance = (rank_sum - n * (n + 1.0) / 2.0 - n * m / 2.0).abs();
    let deviation = (n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)))).sqrt();
    if deviation == 0.0 {
        1.0
    } else {
        erfc((distance - 0.5).max(0.0) / deviation / std::f64::consts::SQRT_2)
    }
}

/// p of several tests, corrected after Holm: the k-th smallest of n times n − k + 1, and none below a smaller one's.
pub(crate) fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<_> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut corrected = vec![0.0; p.len()];
    let mut largest = 0.0_f64;
    for (place, index) in order.iter().enumerate() {
        largest = largest.max((p[*index] * (p.len() - place) as f64).min(1.0));
        corrected[*index] = largest;
    }
    corrected
}

/// The median; of an even number the mean of both in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [lower, upper] = [sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]];
    // Not the mean of two infinite ones.
    if lower == upper { lower } else { (lower + upper) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_is_that_of_scipy() {
        // scipy.stats.mannwhitneyu(x, y, method="asymptotic") of SciPy 1.17.1.
        let left = [1.0, 2.0, 2.0, 3.0, 5.0, 8.0, 9.0];
        let right = [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0];
        assert!((mann_whitney(&left, &right) - SCIPY_P).abs() < 1e-12);
        assert_eq!(mann_whitney(&[1.0; 4], &[1.0; 5]), 1.0);
    }
    const SCIPY_P: f64 = 0.062_890_871_307_434_18;

    #[test]
    fn holm_multiplies_by_the_number_of_tests_that_are_left() {
        assert_eq!(holm(&[0.5, 0.001, 0.02, 0.015]), [0.5, 0.004, 0.045, 0.045]);
    }
}

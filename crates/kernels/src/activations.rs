//! The functions of activations, as loops that the compiler can vectorise.

use crate::simd::multiply_add;

/// eˣ within 2 units in the last place. x is clamped to where eˣ is a normal number. The polynomial is that of Cephes'
/// `expf`, <https://www.netlib.org/cephes/>.
#[inline(always)]
pub(crate) fn exp<const FUSED: bool>(x: f32) -> f32 {
    // Adding this rounds to a whole number in the lowest bits.
    const ROUNDING: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let shifted = multiply_add::<FUSED>(x, std::f32::consts::LOG2_E, ROUNDING);
    let whole = shifted - ROUNDING;
    // ln 2 in two parts. The first has few digits, so that its product is exact.
    let rest = multiply_add::<FUSED>(whole, -0.693_359_4, x);
    let rest = multiply_add::<FUSED>(whole, 2.121_944_4e-4, rest);
    let mut sum = 1.987_569_2e-4;
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5] {
        sum = multiply_add::<FUSED>(sum, rest, coefficient);
    }
    let sum = multiply_add::<FUSED>(sum, rest * rest, rest) + 1.0;
    sum * f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0f32.to_bits()))
}

/// 1 / (1 + e⁻ˣ).
#[inline(always)]
pub(crate) fn sigmoid<const FUSED: bool>(x: f32) -> f32 {
    1.0 / (1.0 + exp::<FUSED>(-x))
}

/// The sigmoids of two numbers by one division: processors divide vectors more slowly than they compute the rest.
#[inline(always)]
pub(crate) fn sigmoids<const FUSED: bool>(first: f32, second: f32) -> [f32; 2] {
    let (first, second) = (one_plus_exp::<FUSED>(-first), one_plus_exp::<FUSED>(-second));
    let inverse = 1.0 / (first * second);
    // Rounding may lead beyond one.
    [at_most(1.0, second * inverse), at_most(1.0, first * inverse)]
}

/// The sigmoid of a number and tanh of another one, by one division.
#[inline(always)]
pub(crate) fn sigmoid_and_tanh<const FUSED: bool>(of_sigmoid: f32, of_tanh: f32) -> [f32; 2] {
    let (first, (above, below)) = (one_plus_exp::<FUSED>(-of_sigmoid), tanh_ratio::<FUSED>(of_tanh));
    let inverse = 1.0 / (first * below);
    [at_most(1.0, below * inverse), (above * (first * inverse)).clamp(-1.0, 1.0)]
}

/// 1 + eˣ, to be multiplied by another one: up to where products of two have 32 bits. There a sigmoid is 2·10⁻¹⁹.
#[inline(always)]
fn one_plus_exp<const FUSED: bool>(x: f32) -> f32 {
    const LIMIT: f32 = 43.0;
    1.0 + exp::<FUSED>(at_most(LIMIT, x))
}

/// The lesser one, or what is not a number, in one instruction.
#[inline(always)]
fn at_most(limit: f32, x: f32) -> f32 {
    if x > limit { limit } else { x }
}

/// tanh x within 4·10⁻⁷ of its value.
#[inline(always)]
pub(crate) fn tanh<const FUSED: bool>(x: f32) -> f32 {
    let (above, below) = tanh_ratio::<FUSED>(x);
    (above / below).clamp(-1.0, 1.0)
}

/// tanh x as a ratio: x times a polynomial of x² over another one, those of these degrees with the least relative error up to
/// the limit, where tanh is 1 in 32 bits (2·10⁻⁸, by Lawson's iteration). Their terms are positive, so that no digits cancel.
#[inline(always)]
fn tanh_ratio<const FUSED: bool>(x: f32) -> (f32, f32) {
    const LIMIT: f32 = 9.04;
    let x = x.clamp(-LIMIT, LIMIT);
    let square = x * x;
    let mut above = 1.328_313e-8;
    for coefficient in [2.055_757e-5, 3.492_460_6e-3, 0.133_783_92, 1.0] {
        above = multiply_add::<FUSED>(above, square, coefficient);
    }
    let mut below = 7.747_318_6e-7;
    for coefficient in [3.280_518_3e-4, 2.586_508_5e-2, 0.467_117_07, 1.0] {
        below = multiply_add::<FUSED>(below, square, coefficient);
    }
    (x * above, below)
}

/// The error function, by a ratio of polynomials that is exact to the last digits (as in Eigen's `erf`). From ±4 on it is ±1.
#[inline(always)]
pub(crate) fn erf<const FUSED: bool>(x: f32) -> f32 {
    let x = x.clamp(-4.0, 4.0);
    let square = x * x;
    let polynomial = |coefficients: &[f32]| {
        coefficients.iter().fold(0.0, |sum, coefficient| multiply_add::<FUSED>(sum, square, *coefficient))
    };
    let above = [
        -2.726_142_3e-10,
        2.770_681_4e-8,
        -2.101_024e-6,
        -5.692_506_5e-5,
        -7.349_906e-4,
        -2.954_6e-3,
        -1.609_603_3e-2,
    ];
    let below = [-1.456_606_5e-5, -2.133_740_6e-4, -1.682_827e-3, -7.373_329e-3, -1.426_473_9e-2];
    x * polynomial(&above) / polynomial(&below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{SimdLoops, vectorised};

    /// Sigmoids and hyperbolic tangents of values.
    struct Both<'a>(&'a mut [f32], &'a mut [f32]);

    impl SimdLoops for Both<'_> {
        fn run<const FUSED: bool>(self) {
            self.0.iter_mut().for_each(|value| *value = sigmoid::<FUSED>(*value));
            self.1.iter_mut().for_each(|value| *value = tanh::<FUSED>(*value));
        }
    }

    /// The same, of each pair of values by one division.
    struct ByOneDivision<'a>(&'a [f32], &'a mut [f32], &'a mut [f32]);

    impl SimdLoops for ByOneDivision<'_> {
        fn run<const FUSED: bool>(self) {
            let count = self.0.len();
            for at in 0..count {
                // Another number of the list, also of the other end.
                let [first, second] = [self.0[at], self.0[(at * 7919 + 13) % count]];
                self.1[at] = sigmoids::<FUSED>(first, second)[0];
                let [again, tangent] = sigmoid_and_tanh::<FUSED>(second, first);
                self.2[at] = tangent;
                assert!((sigmoids::<FUSED>(first, second)[1] - again).abs() <= 4e-7 * again.abs());
            }
        }
    }

    fn both(values: &[f32]) -> [Vec<f32>; 2] {
        let [mut sigmoids, mut tangents] = [values.to_vec(), values.to_vec()];
        vectorised(Both(&mut sigmoids, &mut tangents));
        [sigmoids, tangents]
    }

    #[test]
    fn sigmoid_and_tanh_are_right_to_the_last_digits() {
        let values: Vec<f32> = (-40_000..=40_000).map(|index| index as f32 / 2000.0).collect();
        let mut by_one = [vec![0.0; values.len()], vec![0.0; values.len()]];
        let [first, second] = &mut by_one;
        vectorised(ByOneDivision(&values, first, second));
        for [sigmoids, tangents] in [both(&values), by_one] {
            for ((value, sigmoid), tangent) in values.iter().zip(sigmoids).zip(tangents) {
                let exact = f64::from(*value);
                let error =
                    |found: f32, right: f64| ((f64::from(found) - right) / right.abs().max(1e-30)).abs();
                assert!(error(sigmoid, 1.0 / (1.0 + (-exact).exp())) < 4e-7, "σ({value}) = {sigmoid}");
                assert!(error(tangent, exact.tanh()) < 4e-7, "tanh({value}) = {tangent}");
            }
        }
    }

    #[test]
    fn functions_by_one_division_have_limits() {
        for far in [1e3, 1e30, f32::INFINITY] {
            assert!((0.999_999_9..=1.0).contains(&sigmoids::<false>(far, -far)[0]));
            assert!((0.0..1e-18).contains(&sigmoids::<false>(far, -far)[1]));
            assert!((0.0..1e-18).contains(&sigmoids::<false>(-far, -far)[1]));
            assert!((-1.0..=-0.999_999_8).contains(&sigmoid_and_tanh::<false>(-far, -far)[1]));
            assert!((0.999_999_9..=1.0).contains(&sigmoid_and_tanh::<false>(far, far)[0]));
            assert!((0.999_999_8..=1.0).contains(&sigmoid_and_tanh::<false>(far, far)[1]));
        }
        assert!(sigmoids::<false>(f32::NAN, 0.0)[0].is_nan());
        assert!(sigmoid_and_tanh::<false>(0.0, f32::NAN)[1].is_nan());
    }

    /// Replaces values by their error function.
    struct Errors<'a>(&'a mut [f32]);

    impl SimdLoops for Errors<'_> {
        fn run<const FUSED: bool>(self) {
            self.0.iter_mut().for_each(|value| *value = erf::<FUSED>(*value));
        }
    }

    #[test]
    fn the_error_function_is_right_to_the_last_digits() {
        // From its table (Abramowitz & Stegun 1964, 7.1).
        let table = [
            (0.0, 0.0),
            (0.01, 0.011_283_415_555_849_618),
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
            (3.0, 0.999_977_909_503_001_4),
            (9.0, 1.0),
        ];
        let mut found: Vec<f32> = table.iter().flat_map(|(x, _)| [*x as f32, -*x as f32]).collect();
        vectorised(Errors(&mut found));
        for (pair, (x, right)) in found.chunks(2).zip(table) {
            let error = (f64::from(pair[0]) - right).abs();
            assert!(error <= 3e-7 * right && pair[1] == -pair[0], "erf({x}) = {pair:?}");
        }
    }

    #[test]
    fn what_is_not_finite_stays_so_or_is_the_limit() {
        let [sigmoids, tangents] = both(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
        assert!(sigmoids[0].is_nan() && tangents[0].is_nan());
        assert_eq!((sigmoids[1], tangents[1], tangents[2]), (1.0, 1.0, -1.0));
        assert!(sigmoids[2] < 1e-37);
    }
}

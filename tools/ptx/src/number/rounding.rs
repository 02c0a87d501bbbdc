//! Directed rounding: an exact result as a value and its error, rounded as asked.

/// A rounding mode of PTX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Round {
    /// `rn`: to nearest, ties to even.
    #[default]
    Nearest,
    /// `rz`: towards zero.
    Zero,
    /// `rm`: towards minus infinity.
    Down,
    /// `rp`: towards plus infinity.
    Up,
}

impl Round {
    /// Whether a number rounded to nearest, whose exact value is `error` more, must move, and which way.
    #[inline(always)]
    fn step(self, value: f64, error: f64) -> i32 {
        let up = (error > 0.0) as i32;
        let down = (error < 0.0) as i32;
        match self {
            Round::Nearest => 0,
            Round::Up => up,
            Round::Down => -down,
            Round::Zero if value > 0.0 => -down,
            Round::Zero => up,
        }
    }
}

macro_rules! float_rounding {
    ($float:ty, $module:ident) => {
        /// Directed rounding of results in this type.
        pub(crate) mod $module {
            use super::Round;

            /// The neighbour of a finite number: 1 up, −1 down, 0 itself.
            #[inline(always)]
            fn neighbour(value: $float, step: i32) -> $float {
                match step {
                    1 => value.next_up(),
                    -1 => value.next_down(),
                    _ => value,
                }
            }

            /// What to make of a result rounded to nearest, of which `error` is the sign of what is missing.
            #[inline(always)]
            pub(crate) fn settle(value: $float, error: $float, round: Round) -> $float {
                if value.is_infinite() || value.is_nan() {
                    return value;
                }
                neighbour(value, round.step(value as f64, error as f64))
            }

            /// a + b
            #[inline(always)]
            pub(crate) fn add(a: $float, b: $float, round: Round) -> $float {
                let sum = a + b;
                // Rounding down is the one mode in which opposite numbers cancel to −0.
                if round == Round::Down && sum == 0.0 && a.to_bits() | b.to_bits() != 0 {
                    return -0.0;
                }
                let part = sum - a;
                settle(sum, (a - (sum - part)) + (b - part), round)
            }
        }
    };
}

float_rounding!(f32, single);
float_rounding!(f64, double);

/// The sum of two doubles and what it misses of the exact sum.
#[inline(always)]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// a × b in binary32, rounded as asked.
#[inline(always)]
pub(crate) fn mul_f32(a: f32, b: f32, round: Round) -> f32 {
    to_f32(f64::from(a) * f64::from(b), round)
}

/// a × b in binary64, rounded as asked.
#[inline(always)]
pub(crate) fn mul_f64(a: f64, b: f64, round: Round) -> f64 {
    let product = a * b;
    double::settle(product, a.mul_add(b, -product), round)
}

/// a × b + c in binary32, rounded once as asked.
#[inline(always)]
pub(crate) fn fma_f32(a: f32, b: f32, c: f32, round: Round) -> f32 {
    // The product of two binary32 is exact in binary64.
    let (sum, missing) = two_sum(f64::from(a) * f64::from(b), f64::from(c));
    narrow(sum, missing, round)
}

/// a × b + c in binary64, rounded once as asked.
#[inline(always)]
pub(crate) fn fma_f64(a: f64, b: f64, c: f64, round: Round) -> f64 {
    let result = a.mul_add(b, c);
    let product = a * b;
    let product_error = a.mul_add(b, -product);
    let (sum, sum_error) = two_sum(product, c);
    double::settle(result, (sum - result) + (sum_error + product_error), round)
}

/// A double to binary32, rounded as asked.
#[inline(always)]
pub(crate) fn to_f32(value: f64, round: Round) -> f32 {
    narrow(value, 0.0, round)
}

/// value + missing to binary32, where `missing` is below the last bit of `value`.
#[inline(always)]
fn narrow(value: f64, missing: f64, round: Round) -> f32 {
    let near = value as f32;
    if round == Round::Nearest || !value.is_finite() {
        return near;
    }
    // An overflow is not infinite where rounding is towards zero.
    let near = if near.is_infinite() { f32::MAX.copysign(near) } else { near };
    let error = value - f64::from(near);
    single::settle(near, if error == 0.0 { missing as f32 } else { error.signum() as f32 }, round)
}

/// A double to binary32 so that rounding that again, to fewer bits, is as if it were rounded once: an inexact result
/// is made odd.
#[inline(always)]
pub(crate) fn to_f32_odd(value: f64) -> f32 {
    let near = value as f32;
    let back = f64::from(near);
    let bits = near.to_bits();
    let toward_zero = bits - u32::from(back.abs() > value.abs());
    if back == value || !near.is_finite() { near } else { f32::from_bits(toward_zero | 1) }
}

/// a + b where the result will be rounded again: inexact sums are made odd.
#[inline(always)]
pub(crate) fn add_odd(a: f64, b: f64) -> f64 {
    let (sum, missing) = two_sum(a, b);
    let inexact = missing != 0.0 && sum.is_finite();
    let too_far = (missing < 0.0) == (sum > 0.0);
    let bits = sum.to_bits() - u64::from(inexact && too_far);
    if inexact { f64::from_bits(bits | 1) } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_rounded_as_asked() {
        let tiny = f32::from_bits(1);
        assert_eq!(single::add(1.0, tiny, Round::Nearest), 1.0);
        assert_eq!(single::add(1.0, tiny, Round::Up), 1f32.next_up());
        assert_eq!(single::add(1.0, -tiny, Round::Down), 1f32.next_down());
        assert_eq!(single::add(-1.0, tiny, Round::Zero), (-1f32).next_up());
        assert_eq!(single::add(1.0, -1.0, Round::Down).to_bits(), (-0f32).to_bits());
        assert_eq!(single::add(0.0, 0.0, Round::Down).to_bits(), 0);
    }

    #[test]
    fn products_are_rounded_as_asked() {
        let x = 1f32.next_up();
        let near = x * x;
        assert_eq!(mul_f32(x, x, Round::Up), near.next_up());
        assert_eq!(mul_f32(x, x, Round::Zero), near);
        assert_eq!(mul_f64(3.0, 2.0, Round::Up), 6.0);
    }

    #[test]
    fn the_exponential_of_cuda_gets_its_floor() {
        // expf rounds x·252 + 12582913 down to take the floor of x·252.
        for x in [0.1f32, 0.49999, 0.5, 0.75] {
            let floored = fma_f32(x, 252.0, 12_582_913.0, Round::Down);
            assert_eq!(floored, 12_582_913.0 + (f64::from(x) * 252.0).floor() as f32);
        }
    }

    #[test]
    fn narrowing_towards_zero_never_overflows() {
        assert_eq!(to_f32(1e300, Round::Zero), f32::MAX);
        assert_eq!(to_f32(1e300, Round::Up), f32::INFINITY);
        assert_eq!(to_f32(f64::INFINITY, Round::Zero), f32::INFINITY);
        assert_eq!(to_f32(0.1, Round::Down), 0.1f32.next_down());
    }

    #[test]
    fn odd_sums_remember_what_they_lost() {
        let sum = add_odd(1.0, 2f64.powi(-80));
        assert!(sum > 1.0);
        assert_eq!(add_odd(1.0, -2f64.powi(-80)), 1f64.next_down());
        assert_eq!(add_odd(1.0, 2.0), 3.0);
    }
}

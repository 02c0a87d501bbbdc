//! Dynamic loss scaling, for training in fp16.

use burn::tensor::Tensor;
use oomph_kernels::{Kernels, gradients};
use oomph_model::{AnyTensor, Named};
use serde::{Deserialize, Serialize};

use crate::gradients::listed;

/// The factor that fp16 training multiplies the loss by before backward.
///
/// Gradients below 2⁻²⁴ underflow in fp16, while most of the range above is unused. So the loss, and with it every
/// gradient, is multiplied by a large factor before backward. After backward the gradients are divided by it
/// (Micikevicius et al. 2018, <https://arxiv.org/abs/1710.03740>, section 3.2). Training adapts the factor by the rule
/// and the numbers of PyTorch's `torch.amp.GradScaler`:
///
/// - The loss scale starts at 65,536 = 2¹⁶.
/// - After 2,000 steps in a row without overflow it doubles.
/// - If a gradient is infinite or NaN, the loss scale halves, the optimizer step is skipped and the count restarts.
///
/// The loss scale is a power of two, so multiplying and dividing by it is exact. PyTorch lets it fall to zero; here it
/// stops at 2⁻¹⁴, see [`overflowed`](Self::overflowed).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossScale {
    scale: f32,
    good_steps: u32,
    skipped_steps: usize,
    #[serde(skip, default = "growth_interval")]
    growth_interval: u32,
}

const INITIAL: f32 = 65_536.0;
const GROWTH: f32 = 2.0;
const BACKOFF: f32 = 0.5;
const GROWTH_INTERVAL: u32 = 2000;

/// 2⁻¹⁴, the smallest normal number of fp16. Below it a gradient of size 1 would lose digits, and an overflow has
/// another cause than the loss scale.
const SMALLEST: f32 = 1.0 / 16_384.0;
/// 2¹²⁶, the largest loss scale with a normal reciprocal. GPUs may flush subnormal numbers to zero.
const LARGEST: f32 = 85_070_591_730_234_615_865_843_651_857_942_052_864.0;

/// The growth interval of a loss scale that was read from a checkpoint: it is not saved.
fn growth_interval() -> u32 {
    GROWTH_INTERVAL
}

impl Default for LossScale {
    /// A loss scale of 65,536 that doubles after 2,000 steps without overflow.
    fn default() -> Self {
        Self::with_growth_interval(GROWTH_INTERVAL)
    }
}

impl LossScale {
    /// A loss scale that doubles after `growth_interval` steps in a row without overflow; at least 1.
    pub fn with_growth_interval(growth_interval: u32) -> Self {
        Self { scale: INITIAL, good_steps: 0, skipped_steps: 0, growth_interval: growth_interval.max(1) }
    }

    /// The factor for the loss of the next step.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// Steps without overflow since the loss scale last changed.
    pub fn good_steps(&self) -> u32 {
        self.good_steps
    }

    /// Skipped steps of the whole run.
    pub fn skipped_steps(&self) -> usize {
        self.skipped_steps
    }

    /// Whether training can have come to this scale and this count. A checkpoint may have any numbers.
    pub fn is_reachable(&self) -> bool {
        // A power of two has an empty fraction.
        const FRACTION: u32 = (1 << (f32::MANTISSA_DIGITS - 1)) - 1;
        let is_power_of_two = self.scale.to_bits() & FRACTION == 0;
        is_power_of_two
            && (SMALLEST..=LARGEST).contains(&self.scale)
            && self.good_steps < self.growth_interval
    }

    /// Counts a step whose gradients were all finite, and doubles the loss scale when it is due.
    pub fn succeeded(&mut self) {
        self.good_steps += 1;
        if self.good_steps == self.growth_interval {
            self.good_steps = 0;
            self.scale = (self.scale * GROWTH).min(LARGEST);
        }
    }

    /// Halves the loss scale after a step with a gradient that is not finite. The caller skips that step.
    ///
    /// Returns `false`, and changes nothing, if the loss scale is the smallest already. Training has to end then.
    #[must_use]
    pub fn overflowed(&mut self) -> bool {
        let smaller = self.scale * BACKOFF;
        if smaller < SMALLEST {
            return false;
        }
        self.scale = smaller;
        self.good_steps = 0;
        self.skipped_steps += 1;
        true
    }
}

/// One element on the device: 0 if all gradients are finite, else NaN. `None` without gradients.
pub fn zero_if_finite(gradients: &Named<AnyTensor>, kernels: Kernels) -> Option<Tensor<1>> {
    gradients::zero_if_finite(&listed(gradients), kernels)
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use proptest::prelude::*;

    use super::*;

    fn after(mut scale: LossScale, is_good: impl IntoIterator<Item = bool>) -> LossScale {
        for is_good in is_good {
            if is_good {
                scale.succeeded();
            } else {
                assert!(scale.overflowed(), "there is a smaller scale than {}", scale.scale());
            }
        }
        scale
    }

    #[test]
    fn it_grows_after_two_thousand_good_steps() {
        let scale = after(LossScale::default(), vec![true; 1999]);
        assert_eq!((scale.scale(), scale.good_steps()), (65_536.0, 1999));
        let scale = after(scale, [true]);
        assert_eq!((scale.scale(), scale.good_steps()), (131_072.0, 0));
        assert_eq!(after(scale, vec![true; 4000]).scale(), 524_288.0);
    }

    #[test]
    fn an_overflow_halves_it_and_begins_the_count_again() {
        let scale = after(LossScale::default(), vec![true; 1999]);
        let scale = after(scale, [false]);
        assert_eq!((scale.scale(), scale.good_steps(), scale.skipped_steps()), (32_768.0, 0, 1));
        assert_eq!(after(scale, vec![true; 1999]).scale(), 32_768.0);
    }

    #[test]
    fn after_thirty_overflows_in_a_row_the_scale_is_the_smallest() {
        let mut scale = after(LossScale::default(), vec![false; 30]);
        assert_eq!(scale.scale(), 2.0_f32.powi(-14));
        let last = scale;
        assert!(!scale.overflowed());
        assert_eq!(scale, last);
    }

    #[test]
    fn only_what_training_reaches_is_reachable() {
        let default = LossScale::default();
        assert!(default.is_reachable() && after(default, vec![true; 3999]).is_reachable());
        for scale in [0.0, -65_536.0, 3.0, f32::NAN, f32::INFINITY, SMALLEST / 2.0, LARGEST * 2.0] {
            assert!(!LossScale { scale, ..default }.is_reachable(), "{scale}");
        }
        assert!(!LossScale { good_steps: GROWTH_INTERVAL, ..default }.is_reachable());
    }

    #[test]
    fn the_largest_scale_has_a_normal_reciprocal() {
        let scale = after(LossScale::with_growth_interval(1), vec![true; 1000]);
        assert_eq!(scale.scale(), 2.0_f32.powi(126));
        assert!(scale.scale().recip().is_normal());
    }

    /// The exponent of the loss scale after each step, straight from the rule.
    fn simulated(interval: usize, steps: &[bool]) -> Vec<i32> {
        let mut exponents = vec![16];
        let mut since = 0;
        for (index, is_good) in steps.iter().enumerate() {
            let before = exponents[index];
            exponents.push(if !is_good { before - 1 } else { before });
            if !is_good {
                since = index + 1;
            } else if index + 1 - since == interval {
                exponents[index + 1] += 1;
                since = index + 1;
            }
        }
        exponents.split_off(1)
    }

    proptest! {
        #[test]
        fn it_follows_a_simulation(
            interval in 1_u32..8,
            // One step in eight overflows, so the loss scale stays above its smallest value.
            steps in prop::collection::vec(prop::bool::weighted(0.875), 0..400),
        ) {
            let mut scale = LossScale::with_growth_interval(interval);
            let mut skipped = 0;
            for (is_good, exponent) in steps.iter().zip(simulated(interval as usize, &steps)) {
                let before = scale;
                // Other tests cover both bounds.
                prop_assume!((-14..=126).contains(&exponent));
                if *is_good { scale.succeeded() } else { prop_assert!(scale.overflowed()) }
                skipped += usize::from(!is_good);
                prop_assert_eq!(scale.scale(), 2.0_f32.powi(exponent));
                prop_assert_eq!(scale.skipped_steps(), skipped);
                prop_assert!(scale.good_steps() < interval);
                if scale.scale() != before.scale() {
                    prop_assert_eq!(scale.good_steps(), 0);
                }
            }
        }

        #[test]
        fn json_keeps_every_bit(steps in prop::collection::vec(any::<bool>(), 0..30)) {
            let scale = after(LossScale::default(), steps);
            let text = serde_json::to_string(&scale).expect("numbers can be written");
            prop_assert_eq!(serde_json::from_str::<LossScale>(&text).expect("it was just written"), scale);
        }

        #[test]
        fn one_bad_element_anywhere_is_found(
            shape in prop::collection::vec(1_usize..40, 1..4),
            position in any::<prop::sample::Index>(),
            bad in prop::sample::select(vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY]),
        ) {
            let elements: usize = shape.iter().product();
            // Their sum and the square of each are infinite.
            let mut values = vec![f32::MAX; elements];
            let check = |values: &[f32]| {
                let gradient = AnyTensor::floats(values.to_vec(), &shape, &Device::flex());
                let fine = AnyTensor::zeros(&[3], &Device::flex());
                let gradients = Named::from([("a".to_owned(), fine.clone()), ("b".to_owned(), gradient), ("c".to_owned(), fine)]);
                let check = zero_if_finite(&gradients, Kernels::Cpu).expect("there are gradients");
                AnyTensor::from(check).to_host().expect("the CPU does not fail")[0].is_finite()
            };
            prop_assert!(check(&values));
            values[position.index(elements)] = bad;
            prop_assert!(!check(&values));
        }
    }
}

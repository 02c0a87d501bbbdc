//! Dynamic loss scaling, for training in 16-bit half precision.

use burn::tensor::Tensor;
use oomph_model::{AnyTensor, ModelError, Named};
use serde::{Deserialize, Serialize};

/// What the loss is multiplied by before backward, and when that changes.
///
/// Gradients below 2⁻²⁴ vanish in 16-bit half precision, while most of the range above goes unused. So the loss, and with
/// it every gradient, is multiplied by a large number before backward, and the gradients are divided by it after
/// (Micikevicius et al. 2018, <https://arxiv.org/abs/1710.03740>, section 3.2). The number is found while training: it is
/// raised as long as nothing overflows, and where something does, it is lowered and the optimizer step is skipped.
/// Rule and numbers are those of PyTorch's `torch.amp.GradScaler`:
///
/// - it starts at 65,536 = 2¹⁶;
/// - after 2,000 good steps in a row it is doubled;
/// - where a gradient is infinite or not a number, it is halved, and the count begins again.
///
/// A scale is a power of two, so that to multiply and to divide by it is exact. Where PyTorch lets it go to zero, it ends
/// at 2⁻¹⁴ here: see [`overflowed`](Self::overflowed).
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

/// 2⁻¹⁴, the smallest number that half precision has to all its digits: with a scale below it, a gradient of the size of
/// one would not have them any more. What overflows there is no matter of the scale.
const SMALLEST: f32 = 1.0 / 16_384.0;
/// 2¹²⁶, the largest scale that can be divided by: the reciprocals of larger ones are subnormal numbers, which GPUs may
/// take for zero.
const LARGEST: f32 = 85_070_591_730_234_615_865_843_651_857_942_052_864.0;

/// What a scale that was read has: it is no state.
fn growth_interval() -> u32 {
    GROWTH_INTERVAL
}

impl Default for LossScale {
    /// 65,536, doubled after 2,000 good steps.
    fn default() -> Self {
        Self::with_growth_interval(GROWTH_INTERVAL)
    }
}

impl LossScale {
    /// One that is doubled after so many good steps in a row, at least 1.
    pub fn with_growth_interval(growth_interval: u32) -> Self {
        Self { scale: INITIAL, good_steps: 0, skipped_steps: 0, growth_interval: growth_interval.max(1) }
    }

    /// What the next step multiplies its loss by.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// Good steps since it last changed.
    pub fn good_steps(&self) -> u32 {
        self.good_steps
    }

    /// Steps that were skipped, over the whole run.
    pub fn skipped_steps(&self) -> usize {
        self.skipped_steps
    }

    /// To be called after a step whose gradients were all finite.
    pub fn succeeded(&mut self) {
        self.good_steps += 1;
        if self.good_steps == self.growth_interval {
            self.good_steps = 0;
            self.scale = (self.scale * GROWTH).min(LARGEST);
        }
    }

    /// To be called where a gradient was not finite, and the step is skipped.
    ///
    /// Whether there is a smaller scale to go on with; where there is none it stays as it is, and training has to end.
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

/// One element on the device: 0 where all gradients are finite, else not a number. `None` where there are none.
pub(crate) fn zero_if_finite(gradients: &Named<AnyTensor>) -> Option<Tensor<1>> {
    gradients.values().map(|gradient| gradient.clone().zero_if_finite()).reduce(|sum, one| sum + one)
}

/// Reads the [check](zero_if_finite), which waits for the device.
pub(crate) fn is_finite(check: Option<Tensor<1>>) -> Result<bool, ModelError> {
    match check {
        Some(check) => Ok(AnyTensor::from(check).to_host()?.iter().all(|value| value.is_finite())),
        None => Ok(true),
    }
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
    fn thirty_overflows_in_a_row_are_the_end() {
        let mut scale = after(LossScale::default(), vec![false; 30]);
        assert_eq!(scale.scale(), 2.0_f32.powi(-14));
        let last = scale;
        assert!(!scale.overflowed());
        assert_eq!(scale, last);
    }

    #[test]
    fn however_long_it_grows_it_can_be_divided_by() {
        let scale = after(LossScale::with_growth_interval(1), vec![true; 1000]);
        assert_eq!(scale.scale(), 2.0_f32.powi(126));
        assert!(scale.scale().recip().is_normal());
    }

    /// The exponent of the scale after each step, written down as the rule is told.
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
        fn it_goes_as_a_simulation_does(
            interval in 1_u32..8,
            // One in eight overflows, so that it does not come to its end.
            steps in prop::collection::vec(prop::bool::weighted(0.875), 0..400),
        ) {
            let mut scale = LossScale::with_growth_interval(interval);
            let mut skipped = 0;
            for (is_good, exponent) in steps.iter().zip(simulated(interval as usize, &steps)) {
                let before = scale;
                // Both ends have tests of their own.
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
        fn it_survives_being_written_to_the_bit(steps in prop::collection::vec(any::<bool>(), 0..30)) {
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
            // So large that their sum, and each one's square, is infinite.
            let mut values = vec![f32::MAX; elements];
            let check = |values: &[f32]| {
                let gradient = AnyTensor::floats(values.to_vec(), &shape, &Device::flex());
                let fine = AnyTensor::zeros(&[3], &Device::flex());
                let gradients = Named::from([("a".to_owned(), fine.clone()), ("b".to_owned(), gradient), ("c".to_owned(), fine)]);
                is_finite(zero_if_finite(&gradients)).expect("the CPU does not fail")
            };
            prop_assert!(check(&values));
            values[position.index(elements)] = bad;
            prop_assert!(!check(&values));
        }
    }
}

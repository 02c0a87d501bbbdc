//! Pairs of bf16 in words of 32 bits, rounded stochastically: up or down with the probability that keeps the mean. A mean
//! of squares moves by a thousandth a step, which is less than bf16 can tell, so rounding to the nearest would leave it
//! where it is.

use super::format::{BLOCK, Values};

/// The values of the words of a block. A block at the end may have fewer.
#[inline(always)]
pub(super) fn load(words: &[u32], values: &mut Values) {
    let (pairs, _) = values.as_chunks_mut::<2>();
    for (pair, word) in pairs.iter_mut().zip(words) {
        *pair = [f32::from_bits(*word << 16), f32::from_bits(*word & 0xffff_0000)];
    }
}

/// Rounds values by 16 random bits each, those from the bit `shift` on of the element's [`noise`].
#[inline(always)]
pub(super) fn store(values: &Values, noise: &[u32; BLOCK], shift: u32, words: &mut [u32]) {
    let mut rounded = [0; BLOCK];
    for ((rounded, value), noise) in rounded.iter_mut().zip(values).zip(noise) {
        let bits = value.to_bits();
        // Infinity and NaN stay what they are.
        let added = if bits & 0x7f80_0000 == 0x7f80_0000 { 0 } else { (noise >> shift) & 0xffff };
        *rounded = bits.wrapping_add(added) >> 16;
    }
    for (word, [low, high]) in words.iter_mut().zip(rounded.as_chunks().0) {
        *word = low | high << 16;
    }
}

/// 32 random bits for an element in a step. The hash is Wellons' `lowbias32`.
#[inline(always)]
pub(super) fn noise(element: u32, time: u32) -> u32 {
    let mut bits = element.wrapping_mul(0x9e37_79b9) ^ time.wrapping_mul(0x85eb_ca6b);
    bits = (bits ^ (bits >> 16)).wrapping_mul(0x7feb_352d);
    bits = (bits ^ (bits >> 15)).wrapping_mul(0x846c_a68b);
    bits ^ (bits >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: usize = BLOCK / 2;

    #[test]
    fn rounding_keeps_the_mean() {
        // Between two neighbours in bf16: a quarter of the way.
        let value = 1.0 + 0.25 / 128.0;
        for shift in [0, 16] {
            let mut sum = 0.0;
            let steps = 1000;
            for time in 1..=steps {
                let noise: [u32; BLOCK] = std::array::from_fn(|at| noise(at as u32, time));
                let (mut words, mut found) = ([0; WORDS], [0.0; BLOCK]);
                store(&[value; BLOCK], &noise, shift, &mut words);
                load(&words, &mut found);
                assert!(found.iter().all(|it| [1.0, 1.0 + 1.0 / 128.0].contains(it)));
                sum += found.iter().map(|it| f64::from(*it)).sum::<f64>();
            }
            let mean = sum / f64::from(steps) / BLOCK as f64;
            // 128,000 draws: five standard deviations.
            assert!((mean - f64::from(value)).abs() < 5.0 * 0.0034 / 128_000f64.sqrt(), "{mean}");
        }
    }

    #[test]
    fn values_that_bf16_has_stay() {
        let values: Values =
            std::array::from_fn(|at| [0.0, -1.5, f32::INFINITY, 1e-38 * 0.0, -3.0, 256.0][at % 6]);
        let (mut words, mut found) = ([0; WORDS], [1.0; BLOCK]);
        store(&values, &[u32::MAX; BLOCK], 0, &mut words);
        load(&words, &mut found);
        assert_eq!(found, values);
        store(&[f32::NAN; BLOCK], &[u32::MAX; BLOCK], 16, &mut words);
        load(&words, &mut found);
        assert!(found.iter().all(|it| it.is_nan()));
    }
}

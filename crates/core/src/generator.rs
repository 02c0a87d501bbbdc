use rand::{RngExt, SeedableRng, rand_core::Rng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Beta, Distribution, StandardNormal};

/// The name of one stream of random numbers, such as (seed, step, rank, stage).
///
/// Built by mixing words and names in order: `Key::new(seed).with(step).with(rank).with_name("layer1.0")`.
/// Different sequences of words give different streams (up to collisions of a 128-bit mix).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key([u64; 2]);

impl Key {
    /// The key of a run: all its randomness derives from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self([seed, 0x6f6f_6d70_6821_0001]).with(0)
    }

    /// The key derived from this one and `word` (a step, a rank, an index).
    #[must_use]
    pub const fn with(self, word: u64) -> Self {
        let [low, high] = self.0;
        let low = mix(low ^ word);
        let high = mix(high.wrapping_add(low.rotate_left(32)) ^ word.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Self([low, high])
    }

    /// The key derived from this one and `name` (a stage, a purpose).
    #[must_use]
    pub fn with_name(self, name: &str) -> Self {
        // "name" in the upper half: no plain word gives the same key.
        let start = self.with(0x6e61_6d65 << 32 | name.len() as u64);
        name.as_bytes().chunks(8).fold(start, |key, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            key.with(u64::from_le_bytes(word))
        })
    }
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection in which every input bit moves every output bit.
const fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A stream of random numbers that is a function of its [`Key`] alone.
///
/// So a resumed run, another number of loader threads and a recomputed stage draw the same numbers. The stream is ChaCha with 8 rounds, keyed by the [`Key`].
#[derive(Clone, Debug)]
pub struct Generator(ChaCha8Rng);

/// A place in the stream of a [`Generator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPosition {
    /// The ChaCha8 key. Counter and nonce start at 0.
    pub key: [u32; 8],
    /// The next word, of 32 bits.
    pub word: u64,
}

impl Generator {
    /// The stream of `key`, from its start.
    pub fn at(key: Key) -> Self {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&key.0[0].to_le_bytes());
        seed[8..16].copy_from_slice(&key.0[1].to_le_bytes());
        Self(ChaCha8Rng::from_seed(seed))
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f32 {
        self.0.random()
    }

    /// Fills with numbers of [`uniform`](Self::uniform), several times as fast as one by one.
    pub fn fill_uniforms(&mut self, numbers: &mut [f32]) {
        /// Words that the stream makes at once.
        const WORDS: usize = 64;
        let mut bytes = [0; 4 * WORDS];
        for numbers in numbers.chunks_mut(WORDS) {
            let bytes = &mut bytes[..4 * numbers.len()];
            self.fill(bytes);
            for (number, word) in numbers.iter_mut().zip(bytes.as_chunks().0) {
                // The upper 24 bits of a word, which a float holds exactly.
                *number = (u32::from_le_bytes(*word) >> 8) as f32 * (1.0 / (1 << 24) as f32);
            }
        }
    }

    /// Skips `count` numbers of [`uniform`](Self::uniform).
    pub fn skip_uniforms(&mut self, count: u64) {
        // Each number takes one word of the stream.
        self.0.set_word_pos(self.0.get_word_pos().wrapping_add(count.into()));
    }

    /// Where the stream stands, for a device that continues it: word w of the stream is word w mod 16 of the ChaCha8 block
    /// w / 16.
    pub fn position(&self) -> StreamPosition {
        let seed = self.0.get_seed();
        let (words, _) = seed.as_chunks::<4>();
        // Nobody draws 2⁶⁴ numbers.
        let word = self.0.get_word_pos() as u64;
        StreamPosition { key: std::array::from_fn(|index| u32::from_le_bytes(words[index])), word }
    }

    /// Uniform in [`low`, `high`).
    pub fn uniform_in(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.uniform()
    }

    /// Normal with mean 0 and standard deviation 1.
    pub fn normal(&mut self) -> f32 {
        StandardNormal.sample(&mut self.0)
    }

    /// A share from 0 to 1 of the distribution Beta(`alpha`, `alpha`): near 0 and 1 if `alpha` is below 1, uniform if it is
    /// 1, near ½ if it is above.
    ///
    /// # Panics
    /// Panics unless `alpha` is above 0 and finite.
    pub fn beta(&mut self, alpha: f64) -> f64 {
        // The documented panic.
        Beta::new(alpha, alpha).expect("`alpha` is above 0 and finite").sample(&mut self.0)
    }

    /// Uniform among 0, 1, …, `bound` − 1.
    ///
    /// # Panics
    /// Panics if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.random_range(0..bound)
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f32) -> bool {
        self.uniform() < p
    }

    /// A word of 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Fills with the bytes of [words](Self::bits), lowest first. The stream continues after a multiple of four bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// Puts `items` into a random order, each order equally likely (Fisher–Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_draws_the_same_numbers_every_time() {
        let key = Key::new(1).with(2).with_name("stem");
        let draw = || {
            let mut generator = Generator::at(key);
            [generator.bits(), generator.bits(), generator.below(10) as u64]
        };
        assert_eq!(draw(), draw());
    }

    #[test]
    fn the_stream_never_changes_between_versions() {
        // A run resumed by a later version must get the same numbers: do not change these.
        let mut generator = Generator::at(Key::new(42).with(7).with_name("layer1.0"));
        assert_eq!(generator.bits(), FROZEN);
    }
    const FROZEN: u64 = 12_354_315_064_737_058_153;

    #[test]
    fn neighbouring_keys_draw_different_numbers() {
        let first = |key| Generator::at(key).bits();
        let base = Key::new(0);
        let keys = [
            base,
            Key::new(1),
            base.with(0),
            base.with(1),
            base.with(0).with(1),
            base.with(1).with(0),
            base.with_name(""),
            base.with_name("a"),
            base.with_name("a\0"),
            base.with_name("layer1.0"),
            base.with_name("layer1.1"),
        ];
        let drawn: std::collections::HashSet<_> = keys.into_iter().map(first).collect();
        assert_eq!(drawn.len(), keys.len());
    }

    #[test]
    fn bytes_are_those_of_words() {
        let mut words = Generator::at(Key::new(1));
        let words: Vec<u8> = (0..100).flat_map(|_| words.bits().to_le_bytes()).collect();
        for count in [0, 1, 6, 8, 100, 513, 800] {
            let mut bytes = vec![0; count];
            Generator::at(Key::new(1)).fill(&mut bytes);
            assert_eq!(bytes, words[..count]);
        }
    }

    #[test]
    fn numbers_that_fill_are_those_that_are_drawn() {
        for (skipped, count) in [(0, 0), (0, 1), (3, 64), (5, 200), (62, 3)] {
            let mut drawn = Generator::at(Key::new(1));
            drawn.skip_uniforms(skipped);
            let mut filled = drawn.clone();
            let mut numbers = vec![0.0; count];
            filled.fill_uniforms(&mut numbers);
            for number in numbers {
                assert_eq!(number.to_bits(), drawn.uniform().to_bits(), "after {skipped}");
            }
            assert_eq!(filled.uniform().to_bits(), drawn.uniform().to_bits());
        }
    }

    #[test]
    fn skipping_numbers_is_drawing_them() {
        for count in [0, 1, 5, 63, 64, 1000] {
            let mut drawn = Generator::at(Key::new(1));
            drawn.uniform();
            let mut skipped = drawn.clone();
            (0..count).for_each(|_| _ = drawn.uniform());
            skipped.skip_uniforms(count);
            assert_eq!(skipped.uniform().to_bits(), drawn.uniform().to_bits(), "after {count}");
        }
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut generator = Generator::at(Key::new(3));
        let count = 100_000;
        let normal: Vec<f64> = (0..count).map(|_| f64::from(generator.normal())).collect();
        let mean = normal.iter().sum::<f64>() / f64::from(count);
        let variance = normal.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(count);
        // Five standard errors of the mean and of the variance.
        assert!(mean.abs() < 5.0 / f64::from(count).sqrt(), "mean {mean}");
        assert!((variance - 1.0).abs() < 5.0 * (2.0 / f64::from(count)).sqrt(), "variance {variance}");
        assert!((0..1000).all(|_| (0.0..1.0).contains(&generator.uniform())));
    }

    #[test]
    fn shares_have_the_moments_of_beta() {
        for alpha in [0.2, 1.0, 3.0] {
            let mut generator = Generator::at(Key::new(6));
            let count = 100_000;
            let shares: Vec<f64> = (0..count).map(|_| generator.beta(alpha)).collect();
            assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)));
            let mean = shares.iter().sum::<f64>() / f64::from(count);
            let variance = shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / f64::from(count);
            // Beta(α, α) has mean ½ and variance 1 / (4 (2α + 1)). The standard error of the mean is at most 0.0016; that
            // of the variance is below it, since no share is further than ½ from the mean.
            assert!((mean - 0.5).abs() < 5.0 * 0.0016, "mean {mean}");
            assert!(
                (variance - 1.0 / (4.0 * (2.0 * alpha + 1.0))).abs() < 5.0 * 0.0016,
                "variance {variance}"
            );
        }
    }

    #[test]
    fn a_shuffle_is_a_permutation() {
        let mut items: Vec<_> = (0..100).collect();
        Generator::at(Key::new(9)).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}

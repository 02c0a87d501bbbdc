use oomph_core::{Generator, Key};

/// How tokens are sampled from a model's logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Tokens to add, unless the document ends before.
    pub length: usize,
    /// The divisor of the logits. Below 1, likely tokens become likelier. At 0, the likeliest token is always taken.
    pub temperature: f64,
    /// Samples among this many of the likeliest tokens; `None` for all.
    pub top_k: Option<usize>,
    /// Samples among the likeliest tokens whose probabilities add up to this, behind `temperature` and `top_k` (nucleus sampling,
    /// Holtzman et al. 2020, <https://arxiv.org/abs/1904.09751>); `None` for all.
    pub top_p: Option<f64>,
    /// The seed. On the CPU, equal seeds give equal texts.
    pub seed: u64,
}

impl Sampling {
    /// Samples the token at `place`, from 0. Where all logits are equal or not numbers, the first token.
    pub(super) fn draw(&self, logits: &[f32], place: usize) -> i32 {
        let mut order: Vec<usize> = (0..logits.len()).collect();
        // The sort is stable: the first of equal tokens stays first.
        order.sort_by(|one, other| logits[*other].total_cmp(&logits[*one]));
        order.truncate(self.top_k.unwrap_or(usize::MAX).max(1));
        let Some(&likeliest) = order.first() else { return 0 };
        if self.temperature <= 0.0 {
            return likeliest as i32;
        }
        let highest = f64::from(logits[likeliest]);
        let weight = |token: &usize| ((f64::from(logits[*token]) - highest) / self.temperature).exp();
        let mut weights: Vec<f64> = order.iter().map(weight).collect();
        if let Some(share) = self.top_p {
            keep(&mut weights, share);
        }
        let generator = Key::new(self.seed).with_name("text").with(place as u64);
        let mut left = f64::from(Generator::at(generator).uniform()) * weights.iter().sum::<f64>();
        let found = order.iter().zip(weights).find(|(_, weight)| {
            left -= weight;
            left < 0.0
        });
        *found.map_or(&likeliest, |(token, _)| token) as i32
    }
}

/// Keeps the first of descending weights, until they have this share of the sum.
fn keep(weights: &mut Vec<f64>, share: f64) {
    let enough = share * weights.iter().sum::<f64>();
    let mut sum = 0.0;
    let kept = weights.iter().position(|weight| {
        sum += weight;
        sum >= enough
    });
    weights.truncate(kept.map_or(weights.len(), |last| last + 1));
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Sampling = Sampling { length: 0, temperature: 1.0, top_k: None, top_p: None, seed: 0 };

    fn shares(sampling: Sampling) -> [f64; 3] {
        let logits = [0.0, 2.0f32.ln(), 5.0f32.ln()];
        let mut counts = [0.0; 3];
        for place in 0..8000 {
            counts[sampling.draw(&logits, place) as usize] += 1.0 / 8000.0;
        }
        counts
    }

    #[test]
    fn tokens_follow_their_probabilities() {
        let check = |sampling: Sampling, expected: [f64; 3]| {
            let found = shares(sampling);
            let close = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 0.02);
            assert!(close, "{sampling:?}: {found:?}, not {expected:?}");
        };
        check(PLAIN, [1.0 / 8.0, 2.0 / 8.0, 5.0 / 8.0]);
        check(Sampling { top_k: Some(2), ..PLAIN }, [0.0, 2.0 / 7.0, 5.0 / 7.0]);
        check(Sampling { temperature: 0.5, ..PLAIN }, [1.0 / 30.0, 4.0 / 30.0, 25.0 / 30.0]);
        check(Sampling { temperature: 0.0, ..PLAIN }, [0.0, 0.0, 1.0]);
        check(Sampling { top_k: Some(1), ..PLAIN }, [0.0, 0.0, 1.0]);
        check(Sampling { top_p: Some(0.6), ..PLAIN }, [0.0, 0.0, 1.0]);
        check(Sampling { top_p: Some(0.7), ..PLAIN }, [0.0, 2.0 / 7.0, 5.0 / 7.0]);
        check(Sampling { top_p: Some(0.9), temperature: 0.5, ..PLAIN }, [0.0, 4.0 / 29.0, 25.0 / 29.0]);
        check(Sampling { top_p: Some(1.0), ..PLAIN }, [1.0 / 8.0, 2.0 / 8.0, 5.0 / 8.0]);
    }

    #[test]
    fn a_seed_decides_the_tokens() {
        let drawn = |seed| {
            let sampling = Sampling { seed, ..PLAIN };
            (0..50).map(|place| sampling.draw(&[0.0; 9], place)).collect::<Vec<_>>()
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }
}

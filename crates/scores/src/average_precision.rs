//! Average precision, from the outputs and targets of all samples.

use oomph_engine::{EngineError, ranks::Replicas};

/// The outputs of all samples so far, and which labels they have: 5 bytes for each label of a sample, in host memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ranking {
    labels: usize,
    /// Sample after sample.
    outputs: Vec<f32>,
    is_true: Vec<bool>,
}

impl Ranking {
    pub(crate) fn new(labels: usize) -> Self {
        Self { labels, outputs: Vec::new(), is_true: Vec::new() }
    }

    /// Adds samples: their outputs, and whether they have each label.
    pub(crate) fn add(&mut self, outputs: &[f32], is_true: impl Iterator<Item = bool>) {
        self.outputs.extend_from_slice(outputs);
        self.is_true.extend(is_true);
    }

    /// The average precision of each label over the samples of all ranks; `None` for a label that no sample has.
    ///
    /// Each rank calls it. The ranks exchange one label at a time.
    ///
    /// # Errors
    /// If another rank failed.
    pub(crate) fn finish(self, replicas: &Replicas) -> Result<Vec<Option<f64>>, EngineError> {
        let Self { labels, outputs, is_true } = self;
        let own = outputs.len() / labels.max(1);
        let mut counts = vec![0.0; replicas.world_size()];
        counts[replicas.rank()] = own as f64;
        // Whole numbers up to 2⁵³ are exact.
        let counts: Vec<usize> = replicas.sum(&counts)?.into_iter().map(|count| count as usize).collect();
        let (first, all) = (counts[..replicas.rank()].iter().sum::<usize>(), counts.iter().sum::<usize>());
        let of_label = |label: usize| {
            // Other ranks add theirs to zeros.
            let mut column = vec![0.0; 2 * all];
            for sample in 0..own {
                let place = 2 * (first + sample);
                column[place] = f64::from(outputs[sample * labels + label]);
                column[place + 1] = f64::from(is_true[sample * labels + label]);
            }
            let column = replicas.sum(&column)?;
            let ranked =
                column.chunks_exact(2).map(|pair| Ranked { output: pair[0], is_true: pair[1] > 0.0 });
            Ok(average_precision(ranked.collect()))
        };
        (0..labels).map(of_label).collect()
    }
}

/// A sample for one label.
#[derive(Clone, Copy)]
struct Ranked {
    output: f64,
    is_true: bool,
}

/// Σₙ (Rₙ − Rₙ₋₁) Pₙ over the different outputs n, from the greatest on: Pₙ and Rₙ are precision and recall of the predictions
/// with at least that output. It is that of scikit-learn. `None` if no sample has the label.
fn average_precision(mut ranked: Vec<Ranked>) -> Option<f64> {
    let positives = ranked.iter().filter(|it| it.is_true).count();
    if positives == 0 {
        return None;
    }
    ranked.sort_unstable_by(|one, other| other.output.total_cmp(&one.output));
    let (mut found, mut before, mut sum) = (0, 0, 0.0);
    for (index, it) in ranked.iter().enumerate() {
        found += usize::from(it.is_true);
        // Equal outputs are predicted together.
        if ranked.get(index + 1).is_none_or(|next| next.output != it.output) {
            sum += (found - before) as f64 * (found as f64 / (index + 1) as f64);
            before = found;
        }
    }
    Some(sum / positives as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(outputs: &[f32], is_true: &[bool]) -> Option<f64> {
        let mut ranking = Ranking::new(1);
        // In two batches.
        let (first, second) = outputs.split_at(outputs.len() / 2);
        ranking.add(first, is_true[..first.len()].iter().copied());
        ranking.add(second, is_true[first.len()..].iter().copied());
        ranking.finish(&Replicas::alone()).expect("no other rank")[0]
    }

    #[test]
    fn precision_is_averaged_over_the_steps_of_recall() {
        // The example of scikit-learn's documentation.
        let found = of(&[0.1, 0.4, 0.35, 0.8], &[false, false, true, true]).expect("positives");
        assert!((found - (0.5 + 0.5 * 2.0 / 3.0)).abs() < 1e-15);
        assert_eq!(of(&[3.0, 2.0, 1.0], &[true, true, false]), Some(1.0));
        assert_eq!(of(&[1.0, 1.0, 1.0, 1.0], &[true, false, false, false]), Some(0.25), "all at once");
        assert_eq!(of(&[1.0, 2.0], &[false, false]), None);
        assert_eq!(of(&[], &[]), None);
    }
}

//! Weights of classes in the cross-entropy.

use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, TensorData, activation::log_softmax};

/// A weight for each class, as `weight` of PyTorch's
/// [`CrossEntropyLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html), or for each label, as
/// `pos_weight` of its `BCEWithLogitsLoss`.
///
/// ```
/// use oomph_engine::class_weights::ClassWeights;
///
/// // Three samples of the first class, one of the second.
/// assert_eq!(ClassWeights::balanced(&[3, 1]).values(), [2.0 / 3.0, 2.0]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ClassWeights(Arc<[f32]>);

impl ClassWeights {
    /// These weights, in the order of the classes, each above 0.
    pub fn new(weights: impl IntoIterator<Item = f32>) -> Self {
        Self(weights.into_iter().collect())
    }

    /// The weights under which all classes count alike: n / (K · nₖ) for nₖ of n samples in a class and K classes with samples
    /// (`class_weight="balanced"` of scikit-learn). A class without samples gets weight 1.
    pub fn balanced(counts: &[usize]) -> Self {
        let present = counts.iter().filter(|count| **count > 0).count() as f64;
        let all = counts.iter().sum::<usize>() as f64;
        Self::new(counts.iter().map(|&count| match count {
            0 => 1.0,
            count => (all / (present * count as f64)) as f32,
        }))
    }

    /// The weights under which the samples with a label count as much as those without: (n − nₖ) / nₖ for nₖ of n samples with
    /// the label. A label that no sample has, or every one, gets weight 1.
    pub fn balanced_labels(counts: &[usize], samples: usize) -> Self {
        Self::new(counts.iter().map(|&count| match samples.saturating_sub(count) {
            0 => 1.0,
            _ if count == 0 => 1.0,
            without => (without as f64 / count as f64) as f32,
        }))
    }

    /// The weights, in the order of the classes.
    pub fn values(&self) -> &[f32] {
        &self.0
    }

    /// The sum of the weights of these classes. A class that does not exist has weight 0.
    pub fn sum(&self, classes: &[i64]) -> f64 {
        let weight = |class: &i64| usize::try_from(*class).ok().and_then(|class| self.0.get(class));
        classes.iter().filter_map(weight).map(|weight| f64::from(*weight)).sum()
    }

    /// The weighted mean of the cross-entropy: Σₙ w(yₙ) lₙ / Σₙ w(yₙ), where lₙ is −log softmax(logits)ₙ at class yₙ.
    ///
    /// With label smoothing ε the loss is (1 − ε) times that, plus ε/K · Σₙ Σₖ w(k) (−log softmax(logits)ₙₖ) / Σₙ w(yₙ), as
    /// PyTorch has it.
    ///
    /// # Shapes
    /// - logits `[B, K]` of 32 bits, classes `[B]`, the loss `[1]`
    pub(crate) fn loss(&self, logits: Tensor<2>, classes: Tensor<1, Int>, label_smoothing: f64) -> Tensor<1> {
        let (losses, weights) = self.sums(logits, classes, label_smoothing);
        losses / weights
    }

    /// As [`loss`](Self::loss), but divided by the number of samples B, not by the sum of their weights. The loss of mixed
    /// samples is the sum of two of these by their shares: PyTorch takes that mean if its targets are probabilities.
    pub(crate) fn loss_of_share(
        &self,
        logits: Tensor<2>,
        classes: Tensor<1, Int>,
        label_smoothing: f64,
    ) -> Tensor<1> {
        let [batch, _] = logits.dims();
        let (losses, _) = self.sums(logits, classes, label_smoothing);
        losses.div_scalar(batch as f64)
    }

    /// The weights as a row, `[1, K]`.
    pub(crate) fn row(&self, device: &Device) -> Tensor<2> {
        Tensor::from_data(TensorData::new(self.0.to_vec(), [1, self.0.len()]), device)
    }

    /// The sums over the samples of their weighted losses and of their weights, each `[1]`.
    fn sums(
        &self,
        logits: Tensor<2>,
        classes: Tensor<1, Int>,
        label_smoothing: f64,
    ) -> (Tensor<1>, Tensor<1>) {
        let [batch, count] = logits.dims();
        let weights = Tensor::<1>::from_data(TensorData::new(self.0.to_vec(), [count]), &logits.device());
        let of_sample = weights.clone().gather(0, classes.clone());
        let all = of_sample.clone().sum_dim(0);
        let log_probabilities = log_softmax(logits, 1);
        let picked = log_probabilities.clone().gather(1, classes.reshape([batch, 1])).reshape([batch]);
        let losses = (picked * of_sample).sum_dim(0).neg();
        if label_smoothing == 0.0 {
            return (losses, all);
        }
        let spread = log_probabilities * weights.reshape([1, count]);
        let spread = spread.reshape([batch * count]).sum_dim(0).neg();
        let smoothed =
            losses.mul_scalar(1.0 - label_smoothing) + spread.mul_scalar(label_smoothing / count as f64);
        (smoothed, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balanced_classes_have_equal_sums_of_weights() {
        let weights = ClassWeights::balanced(&[6, 2, 0, 1]);
        assert_eq!(weights.values(), [0.5, 1.5, 1.0, 3.0]);
        assert_eq!(weights.sum(&[0, 0, 0, 0, 0, 0]), weights.sum(&[1, 1]));
        assert_eq!(weights.sum(&[3, 7, -1]), 3.0);
    }

    #[test]
    fn samples_with_a_label_count_as_much_as_those_without() {
        assert_eq!(ClassWeights::balanced_labels(&[2, 8, 0, 10], 10).values(), [4.0, 0.25, 1.0, 1.0]);
    }
}

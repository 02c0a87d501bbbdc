//! The task of targets that are any number of labels.

use std::sync::Arc;

use burn::tensor::Tensor;
use oomph_core::TargetSpec;
use oomph_model::{AnyTensor, Kernels, binary_cross_entropies, binary_cross_entropy};

use crate::{
    class_weights::ClassWeights,
    task::{DeviceTargets, LABELS, Task, TaskError, kind_of},
};

/// Binary cross-entropy of each label: the mean of −y log σ(x) − (1 − y) log(1 − σ(x)) over the logits x, `[B, K]`, and the
/// targets y of all labels and samples, as PyTorch's
/// [`BCEWithLogitsLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html).
///
/// With label smoothing ε, y is y (1 − ε) + ε/2. Weights of labels multiply the first term: they are PyTorch's `pos_weight`. A
/// label is predicted where σ(x) is at least ½. A sample is correct if exactly its labels are predicted; of mixed samples
/// those with a share of at least ½ count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MultiLabel {
    /// Label smoothing ε, 0 ≤ ε < 1.
    pub label_smoothing: f64,
    /// The kernels of [`oomph_model::binary_cross_entropy`]. `None` composes the loss from Burn's operations.
    pub lean: Option<Kernels>,
    /// Weights of the labels. A weighted loss is composed from Burn's operations.
    pub weights: Option<ClassWeights>,
}

impl MultiLabel {
    pub(crate) const NAME: &str = "multi-label";
}

impl Task for MultiLabel {
    fn check(&self, target: &TargetSpec) -> Result<(), TaskError> {
        match target {
            TargetSpec::Labels { .. } => Ok(()),
            _ => Err(TaskError::Targets { task: Self::NAME, expected: LABELS, found: kind_of(target) }),
        }
    }

    fn takes_mixed(&self) -> bool {
        true
    }

    fn with_class_weights(&self, weights: ClassWeights) -> Option<Arc<dyn Task>> {
        Some(Arc::new(Self { weights: Some(weights), ..self.clone() }))
    }

    fn loss(&self, output: &AnyTensor, targets: &DeviceTargets) -> Result<Tensor<1>, TaskError> {
        let DeviceTargets::Labels(labels) = targets else {
            return Err(TaskError::Targets { task: Self::NAME, expected: LABELS, found: targets.kind() });
        };
        let [batch, count] = labels.dims();
        let logits = output.clone().float::<2>().filter(|logits| logits.dims() == [batch, count]);
        let logits = logits.ok_or_else(|| TaskError::Output {
            task: Self::NAME,
            expected: format!("[{batch}, {count}]"),
            found: output.dims(),
        })?;
        let (labels, smoothing) = (labels.clone(), self.label_smoothing);
        if let (None, Some(kernels)) = (&self.weights, self.lean) {
            return Ok(binary_cross_entropy(logits, labels, smoothing, kernels));
        }
        let weights = self.weights.as_ref().map(|weights| weights.row(&logits.device()));
        let losses = binary_cross_entropies(logits, labels, smoothing, weights);
        Ok(losses.reshape([batch * count]).mean_dim(0))
    }

    fn correct(&self, output: &AnyTensor, targets: &DeviceTargets) -> Option<Tensor<1>> {
        let DeviceTargets::Labels(labels) = targets else { return None };
        let logits = output.clone().float::<2>().filter(|logits| logits.dims() == labels.dims())?;
        // σ(x) ≥ ½ where x ≥ 0.
        let is_wrong = logits.greater_equal_elem(0.0).not_equal(labels.clone().greater_equal_elem(0.5));
        let wrong = is_wrong.float().sum_dim(1);
        Some(wrong.equal_elem(0.0).float().sum_dim(0).reshape([1]))
    }
}

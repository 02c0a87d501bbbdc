//! Tasks: the loss between the output of a model and the targets.

use std::sync::Arc;

use burn::tensor::{Int, Tensor, activation::log_softmax};
use oomph_core::TargetSpec;
use oomph_data::{Batch, Targets};
use oomph_model::{AnyTensor, Kernels, cross_entropy};

use crate::class_weights::ClassWeights;
pub use crate::multi_label::MultiLabel;

/// Targets of a batch, on the device.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a micro-batch has one, and a box would count as memory of the device"
)]
pub enum DeviceTargets {
    /// One class index per sample, `[B]`.
    Classes(Tensor<1, Int>),
    /// Two classes per sample, each `[B]`, of samples mixed in pairs: [`oomph_data::Targets::Mixed`].
    Mixed {
        /// The class of each sample.
        classes: Tensor<1, Int>,
        /// The class of the sample that was mixed into it.
        partners: Tensor<1, Int>,
        /// The share of `classes`, from 0 to 1.
        share: f32,
    },
    /// For each sample how far it has each label, from 0 to 1, `[B, K]`.
    Labels(Tensor<2>),
    /// One row of values per sample, `[B, F]`.
    Values(Tensor<2>),
    /// One token per time step, `[B, T]`.
    Tokens(Tensor<2, Int>),
}

/// Computes the loss between the output of a model and the targets.
pub trait Task: Send + Sync {
    /// The mean loss over the samples, `[1]`, on the device. Training differentiates this loss.
    ///
    /// # Errors
    /// If the output and the targets have different shapes or kinds.
    fn loss(&self, output: &AnyTensor, targets: &DeviceTargets) -> Result<Tensor<1>, TaskError>;

    /// Checks before training that the task accepts targets of this kind. The default accepts all.
    ///
    /// # Errors
    /// [`TaskError::Targets`] if the task does not accept them.
    fn check(&self, _target: &TargetSpec) -> Result<(), TaskError> {
        Ok(())
    }

    /// Whether the loss takes the two classes of samples mixed in pairs, [`DeviceTargets::Mixed`]; of labels, shares between
    /// 0 and 1.
    fn takes_mixed(&self) -> bool {
        false
    }

    /// The number of correctly predicted samples, `[1]`, on the device. The accuracy is this number divided by the
    /// number of samples. `None` if the task has no notion of a correct prediction.
    fn correct(&self, _output: &AnyTensor, _targets: &DeviceTargets) -> Option<Tensor<1>> {
        None
    }

    /// The weight of a batch: the loss over several micro-batches or ranks is the mean of their losses by these weights. The
    /// default is the number of samples, with which it is the mean over all samples.
    fn weight(&self, batch: &Batch) -> f64 {
        batch.size as f64
    }

    /// The same task with a weight for each class; `None` if the task has no use for such weights.
    fn with_class_weights(&self, _weights: ClassWeights) -> Option<Arc<dyn Task>> {
        None
    }

    /// Whether the loss of targets that are tokens is the mean of the losses of single tokens, so that it can be computed by chunks
    /// (`memory.loss_chunk`).
    fn is_mean_of_tokens(&self) -> bool {
        false
    }

    /// Whether the loss is the mean of −log p per token. The perplexity is then its exponential.
    fn has_perplexity(&self, _target: &TargetSpec) -> bool {
        false
    }
}

/// An output or targets that a task does not accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// The output has the wrong shape.
    #[error("task `{task}` takes an output of {expected}, got {found:?}")]
    Output {
        /// The task's name.
        task: &'static str,
        /// The expected shape.
        expected: String,
        /// The shape of the output.
        found: Vec<usize>,
    },
    /// An error of a task outside this crate.
    #[error("task `{task}`: {reason}")]
    Other {
        /// The task's name.
        task: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The targets are of the wrong kind.
    #[error("task `{task}` takes {expected} as targets, got {found}")]
    Targets {
        /// The task's name.
        task: &'static str,
        /// The kinds that the task accepts.
        expected: &'static str,
        /// The kind of the targets.
        found: &'static str,
    },
}

const CLASSES: &str = "classes";
const MIXED: &str = "classes mixed in pairs";
pub(crate) const LABELS: &str = "labels";
const VALUES: &str = "values";
pub(crate) const TOKENS: &str = "tokens";

impl DeviceTargets {
    /// The name of the kind, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Classes(_) => CLASSES,
            Self::Labels(_) => LABELS,
            Self::Mixed { .. } => MIXED,
            Self::Values(_) => VALUES,
            Self::Tokens(_) => TOKENS,
        }
    }
}

/// The kind of the targets of a source.
pub(crate) fn kind_of(target: &TargetSpec) -> &'static str {
    match target {
        TargetSpec::Labels { .. } => LABELS,
        TargetSpec::Class { .. } => CLASSES,
        TargetSpec::Values { .. } => VALUES,
        TargetSpec::Tokens { .. } => TOKENS,
    }
}

/// Cross-entropy, −Σ q log softmax(logits), of logits `[B, K]` with one class per sample, or of logits `[B, T, V]` with
/// one token per time step.
///
/// With label smoothing ε, q is 1 − ε + ε/K for the true class and ε/K for the others (Szegedy et al. 2016,
/// arXiv:1512.00567). Of samples mixed in pairs, q is the mean of both classes' q, weighted by their shares (Zhang et al.
/// 2018, arXiv:1710.09412). Such a sample counts as correct if the class with the larger share is predicted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Classification {
    /// Label smoothing ε, 0 ≤ ε < 1.
    pub label_smoothing: f64,
    /// The kernels of [`oomph_model::cross_entropy`], which keeps only the logits for backward. `None` composes the
    /// loss from Burn's operations.
    pub lean: Option<Kernels>,
    /// Weights of the classes, for targets of one class a sample. A weighted loss is composed from Burn's operations.
    pub weights: Option<ClassWeights>,
}

impl Classification {
    const NAME: &str = "classification";

    /// Logits `[N, K]` and classes `[N]`, where N counts the samples, or all time steps of all samples. Of mixed samples, the
    /// classes that the samples have themselves.
    fn rows(output: &AnyTensor, targets: &DeviceTargets) -> Result<(Tensor<2>, Tensor<1, Int>), TaskError> {
        let wrong = |expected: &str| TaskError::Output {
            task: Self::NAME,
            expected: expected.into(),
            found: output.dims(),
        };
        match targets {
            DeviceTargets::Classes(classes) | DeviceTargets::Mixed { classes, .. } => {
                let logits = output.clone().float::<2>().ok_or_else(|| wrong("[B, classes]"))?;
                Ok((logits, classes.clone()))
            }
            DeviceTargets::Tokens(tokens) => {
                let [batch, steps] = tokens.dims();
                let logits =
                    output.clone().float::<3>().filter(|logits| logits.dims()[..2] == [batch, steps]);
                let logits = logits.ok_or_else(|| wrong("[B, T, tokens]"))?;
                let [_, _, count] = logits.dims();
                let rows = batch * steps;
                Ok((logits.reshape([rows, count]), tokens.clone().reshape([rows])))
            }
            DeviceTargets::Labels(_) | DeviceTargets::Values(_) => {
                Err(TaskError::Targets { task: Self::NAME, expected: Self::TARGETS, found: targets.kind() })
            }
        }
    }

    const TARGETS: &str = "classes or tokens";

    /// The mean loss of logits `[N, K]` and classes `[N]`, without weights.
    fn mean_loss(&self, logits: Tensor<2>, classes: Tensor<1, Int>) -> Tensor<1> {
        if let Some(kernels) = self.lean {
            return cross_entropy(logits, classes, self.label_smoothing, kernels);
        }
        let [batch, count] = logits.dims();
        let log_probabilities = log_softmax(logits, 1);
        let picked = log_probabilities.clone().gather(1, classes.reshape([batch, 1]));
        let loss = picked.reshape([batch]).mean_dim(0).neg();
        if self.label_smoothing == 0.0 {
            return loss;
        }
        let spread = log_probabilities.reshape([batch * count]).mean_dim(0).neg();
        loss.mul_scalar(1.0 - self.label_smoothing) + spread.mul_scalar(self.label_smoothing)
    }
}

impl Task for Classification {
    fn check(&self, target: &TargetSpec) -> Result<(), TaskError> {
        match target {
            TargetSpec::Class { .. } | TargetSpec::Tokens { .. } => Ok(()),
            TargetSpec::Labels { .. } | TargetSpec::Values { .. } => {
                Err(TaskError::Targets { task: Self::NAME, expected: Self::TARGETS, found: kind_of(target) })
            }
        }
    }

    fn takes_mixed(&self) -> bool {
        true
    }

    fn weight(&self, batch: &Batch) -> f64 {
        match (&self.weights, &batch.targets) {
            (Some(weights), Targets::Classes(classes)) => weights.sum(classes),
            // The loss of mixed samples is divided by their number, with weights of classes too.
            _ => batch.size as f64,
        }
    }

    fn with_class_weights(&self, weights: ClassWeights) -> Option<Arc<dyn Task>> {
        Some(Arc::new(Self { weights: Some(weights), ..self.clone() }))
    }

    fn is_mean_of_tokens(&self) -> bool {
        true
    }

    fn has_perplexity(&self, target: &TargetSpec) -> bool {
        matches!(target, TargetSpec::Tokens { .. }) && self.label_smoothing == 0.0
    }

    fn loss(&self, output: &AnyTensor, targets: &DeviceTargets) -> Result<Tensor<1>, TaskError> {
        let (logits, classes) = Self::rows(output, targets)?;
        let DeviceTargets::Mixed { partners, share, .. } = targets else {
            return Ok(match &self.weights {
                Some(weights) => weights.loss(logits, classes, self.label_smoothing),
                None => self.mean_loss(logits, classes),
            });
        };
        let loss = |logits, classes| match &self.weights {
            Some(weights) => weights.loss_of_share(logits, classes, self.label_smoothing),
            None => self.mean_loss(logits, classes),
        };
        // The loss is linear in q.
        let own = loss(logits.clone(), classes).mul_scalar(*share);
        Ok(own + loss(logits, partners.clone()).mul_scalar(1.0 - share))
    }

    fn correct(&self, output: &AnyTensor, targets: &DeviceTargets) -> Option<Tensor<1>> {
        let logits = output.clone();
        // Reshape the predicted indices, not the logits: reshaped logits would be one more node of the graph, and it
        // could keep the logits alive until the end of backward.
        match targets {
            DeviceTargets::Classes(classes) => correct_rows(logits, classes),
            DeviceTargets::Mixed { classes, partners, share } => {
                correct_rows(logits, if *share >= 0.5 { classes } else { partners })
            }
            DeviceTargets::Tokens(tokens) => {
                let [batch, steps] = tokens.dims();
                let logits = logits.float::<3>().filter(|logits| logits.dims()[..2] == [batch, steps])?;
                let predicted = logits.argmax(2).reshape([batch * steps]);
                // A sample counts by the share of its tokens that are correct.
                Some(equal(predicted, tokens.clone().reshape([batch * steps])).div_scalar(steps as f32))
            }
            DeviceTargets::Labels(_) | DeviceTargets::Values(_) => None,
        }
    }
}

/// The number of rows of logits `[B, K]` whose largest is that of the class, `[1]`.
fn correct_rows(logits: AnyTensor, classes: &Tensor<1, Int>) -> Option<Tensor<1>> {
    let logits = logits.float::<2>()?;
    let [rows, _] = logits.dims();
    Some(equal(logits.argmax(1).reshape([rows]), classes.clone()))
}

/// The number of equal elements, `[1]`.
fn equal(predicted: Tensor<1, Int>, classes: Tensor<1, Int>) -> Tensor<1> {
    predicted.equal(classes).float().sum_dim(0)
}

/// The mean squared error between an output `[B, F]` and target values `[B, F]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regression;

impl Regression {
    const NAME: &str = "regression";
}

impl Task for Regression {
    fn check(&self, target: &TargetSpec) -> Result<(), TaskError> {
        match target {
            TargetSpec::Values { .. } => Ok(()),
            _ => Err(TaskError::Targets { task: Self::NAME, expected: VALUES, found: kind_of(target) }),
        }
    }

    fn loss(&self, output: &AnyTensor, targets: &DeviceTargets) -> Result<Tensor<1>, TaskError> {
        let DeviceTargets::Values(values) = targets else {
            return Err(TaskError::Targets { task: Self::NAME, expected: VALUES, found: targets.kind() });
        };
        let expected = values.dims();
        let output =
            output.clone().float::<2>().filter(|output| output.dims() == expected).ok_or_else(|| {
                TaskError::Output {
                    task: Self::NAME,
                    expected: format!("{expected:?}"),
                    found: output.dims(),
                }
            })?;
        let difference = output - values.clone();
        Ok(difference.square().reshape([expected[0] * expected[1]]).mean_dim(0))
    }
}

/// The name of the default task for a kind of target.
pub fn default_task(target: &TargetSpec) -> &'static str {
    match target {
        TargetSpec::Class { .. } | TargetSpec::Tokens { .. } => Classification::NAME,
        TargetSpec::Labels { .. } => MultiLabel::NAME,
        TargetSpec::Values { .. } => Regression::NAME,
    }
}

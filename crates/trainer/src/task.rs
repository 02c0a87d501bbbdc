use burn::tensor::{Int, Tensor, activation::log_softmax};
use oomph_core::TargetSpec;
use oomph_model::{AnyTensor, Kernels, cross_entropy};

/// What the output of a model is compared with, on the device.
#[derive(Clone, Debug)]
pub enum DeviceTargets {
    /// A class index a sample, `[B]`.
    Classes(Tensor<1, Int>),
    /// A row of values a sample, `[B, F]`.
    Values(Tensor<2>),
    /// A token at each time step of a sample, `[B, T]`.
    Tokens(Tensor<2, Int>),
}

/// How the output of a model is compared with the targets.
pub trait Task: Send + Sync {
    /// The mean loss over the samples, as one element on the device. It is what training differentiates.
    ///
    /// # Errors
    /// Where output and targets do not fit each other.
    fn loss(&self, output: &AnyTensor, targets: &DeviceTargets) -> Result<Tensor<1>, TaskError>;

    /// Whether it can compare anything with targets of this kind: asked before anything is trained.
    ///
    /// # Errors
    /// Where it cannot.
    fn check(&self, _target: &TargetSpec) -> Result<(), TaskError> {
        Ok(())
    }

    /// How many samples the output is right about, as one element on the device; `None` where nothing is right or
    /// wrong. Divided by the number of samples it is the accuracy.
    fn correct(&self, _output: &AnyTensor, _targets: &DeviceTargets) -> Option<Tensor<1>> {
        None
    }

    /// Whether the loss is the mean of −log p of a token, so that its exponential is the perplexity.
    fn has_perplexity(&self, _target: &TargetSpec) -> bool {
        false
    }
}

/// An output that a task cannot compare with the targets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// The output has another shape than the task takes.
    #[error("task `{task}` takes an output of {expected}, got {found:?}")]
    Output {
        /// The task's name.
        task: &'static str,
        /// The shape it takes.
        expected: String,
        /// The shape it was given.
        found: Vec<usize>,
    },
    /// A reason of a user's own task. No task of this crate gives it.
    #[error("task `{task}`: {reason}")]
    Other {
        /// The task's name.
        task: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The targets are of another kind than the task takes.
    #[error("task `{task}` takes {expected} as targets, got {found}")]
    Targets {
        /// The task's name.
        task: &'static str,
        /// What it takes.
        expected: &'static str,
        /// What it was given.
        found: &'static str,
    },
}

const CLASSES: &str = "classes";
const VALUES: &str = "values";
const TOKENS: &str = "tokens";

impl DeviceTargets {
    /// The kind, for messages.
    fn kind(&self) -> &'static str {
        match self {
            Self::Classes(_) => CLASSES,
            Self::Values(_) => VALUES,
            Self::Tokens(_) => TOKENS,
        }
    }
}

/// The kind of the targets of a source.
fn kind_of(target: &TargetSpec) -> &'static str {
    match target {
        TargetSpec::Class { .. } => CLASSES,
        TargetSpec::Values { .. } => VALUES,
        TargetSpec::Tokens { .. } => TOKENS,
    }
}

/// Cross-entropy between logits `[B, K]` and a class a sample, or `[B, T, V]` and a token at each step:
/// −Σ q log softmax(logits).
///
/// q is 1 − ε + ε/K for the class and ε/K elsewhere, with label smoothing ε (Szegedy et al. 2016, arXiv:1512.00567).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Classification {
    /// Label smoothing, from 0 up to but not including 1.
    pub label_smoothing: f64,
    /// The kernels of [`oomph_model::cross_entropy`], which keeps the logits alone; without it is Burn's operations.
    pub lean: Option<Kernels>,
}

impl Classification {
    const NAME: &str = "classification";

    /// Logits and classes, a row and a class for each thing to tell: a sample, or a step of one.
    fn rows(output: &AnyTensor, targets: &DeviceTargets) -> Result<(Tensor<2>, Tensor<1, Int>), TaskError> {
        let wrong = |expected: &str| TaskError::Output {
            task: Self::NAME,
            expected: expected.into(),
            found: output.dims(),
        };
        match targets {
            DeviceTargets::Classes(classes) => {
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
            DeviceTargets::Values(_) => {
                Err(TaskError::Targets { task: Self::NAME, expected: Self::TARGETS, found: targets.kind() })
            }
        }
    }

    const TARGETS: &str = "classes or tokens";
}

impl Task for Classification {
    fn check(&self, target: &TargetSpec) -> Result<(), TaskError> {
        match target {
            TargetSpec::Class { .. } | TargetSpec::Tokens { .. } => Ok(()),
            TargetSpec::Values { .. } => {
                Err(TaskError::Targets { task: Self::NAME, expected: Self::TARGETS, found: kind_of(target) })
            }
        }
    }

    fn has_perplexity(&self, target: &TargetSpec) -> bool {
        matches!(target, TargetSpec::Tokens { .. }) && self.label_smoothing == 0.0
    }

    fn loss(&self, output: &AnyTensor, targets: &DeviceTargets) -> Result<Tensor<1>, TaskError> {
        let (logits, classes) = Self::rows(output, targets)?;
        if let Some(kernels) = self.lean {
            return Ok(cross_entropy(logits, classes, self.label_smoothing, kernels));
        }
        let [batch, count] = logits.dims();
        let log_probabilities = log_softmax(logits, 1);
        let picked = log_probabilities.clone().gather(1, classes.reshape([batch, 1]));
        let loss = picked.reshape([batch]).mean_dim(0).neg();
        if self.label_smoothing == 0.0 {
            return Ok(loss);
        }
        let spread = log_probabilities.reshape([batch * count]).mean_dim(0).neg();
        Ok(loss.mul_scalar(1.0 - self.label_smoothing) + spread.mul_scalar(self.label_smoothing))
    }

    fn correct(&self, output: &AnyTensor, targets: &DeviceTargets) -> Option<Tensor<1>> {
        let logits = output.clone();
        // Indices first, and rows of these: logits in rows would be one more node of the graph, which nobody goes back
        // through and which may hold the logits to the end of backward.
        match targets {
            DeviceTargets::Classes(classes) => {
                let logits = logits.float::<2>()?;
                let [rows, _] = logits.dims();
                Some(equal(logits.argmax(1).reshape([rows]), classes.clone()))
            }
            DeviceTargets::Tokens(tokens) => {
                let [batch, steps] = tokens.dims();
                let logits = logits.float::<3>().filter(|logits| logits.dims()[..2] == [batch, steps])?;
                let predicted = logits.argmax(2).reshape([batch * steps]);
                // A sample counts as the share of its tokens.
                Some(equal(predicted, tokens.clone().reshape([batch * steps])).div_scalar(steps as f32))
            }
            DeviceTargets::Values(_) => None,
        }
    }
}

/// How many are equal.
fn equal(predicted: Tensor<1, Int>, classes: Tensor<1, Int>) -> Tensor<1> {
    predicted.equal(classes).float().sum_dim(0)
}

/// The mean squared error between an output `[B, F]` and values `[B, F]`.
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

/// The name of the task that goes with a target where the configuration names none.
pub(crate) fn default_task(target: &TargetSpec) -> &'static str {
    match target {
        TargetSpec::Class { .. } | TargetSpec::Tokens { .. } => Classification::NAME,
        TargetSpec::Values { .. } => Regression::NAME,
    }
}

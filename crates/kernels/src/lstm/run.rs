use std::ops::Range;

use burn::tensor::Tensor;

/// The inputs of a forward pass over a run of steps.
#[derive(Debug)]
pub struct LstmStart {
    /// The whole sequence, `[B, T, I]`.
    pub input: Tensor<3>,
    /// The steps of the run.
    pub steps: Range<usize>,
    /// The sum of both biases, `[4U]`.
    pub bias: Tensor<1>,
    /// Hidden units and cell before the first step, `[B, U]` in 32 bits.
    pub state: [Tensor<2>; 2],
    /// The destination of the outputs.
    pub outputs: LstmOutputs,
    /// Whether the activated gates are returned.
    pub keeps_gates: bool,
}

/// The destination of outputs, `[B, T, U]` in the format of products.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is moved once for each run of steps")]
pub enum LstmOutputs {
    /// None: the outputs are known.
    Known,
    /// A tensor that holds the outputs of other runs.
    There(Tensor<3>),
    /// A new tensor: the run is the whole sequence.
    New,
}

impl LstmOutputs {
    /// The tensor that holds the outputs of other runs.
    pub fn there(self) -> Option<Tensor<3>> {
        match self {
            Self::There(outputs) => Some(outputs),
            Self::Known | Self::New => None,
        }
    }
}

/// The results of a forward pass over a run of steps.
#[derive(Debug)]
pub struct LstmSteps {
    /// The activated gates, `[B, k, 4U]` in the format of products, if wanted.
    pub gates: Option<Tensor<3>>,
    /// All outputs, including those of the run, if wanted.
    pub output: Option<Tensor<3>>,
    /// Hidden units and cell after the last step, `[B, U]` in 32 bits.
    pub state: [Tensor<2>; 2],
}

/// The gradients of a run of steps.
#[derive(Debug)]
pub struct LstmGradients {
    /// The gradient of the gates before their activation, `[B, k, 4U]` in 32 bits.
    pub gates: Tensor<3>,
    /// The hidden units before each step, `[B, k, U]` in 32 bits: the factor of the recurrent weights' gradient.
    pub previous: Tensor<3>,
    /// The gradients of hidden units and cell before the first step.
    pub state: [Tensor<2>; 2],
}

/// The inputs of a backward pass through a run of steps.
#[derive(Debug)]
pub struct LstmEnd {
    /// The activated gates, `[B, k, 4U]`.
    pub gates: Tensor<3>,
    /// Hidden units and cell before the first step.
    pub before: [Tensor<2>; 2],
    /// The steps of the run.
    pub steps: Range<usize>,
    /// The gradient of all outputs, `[B, T, U]`.
    pub outputs: Tensor<3>,
    /// The gradient of hidden units and cell after the last step.
    pub after: [Tensor<2>; 2],
}

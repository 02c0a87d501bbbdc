use std::ops::Range;

use burn::tensor::{Int, Tensor};

use super::matrix::RecurrentMatrix;

/// What a layer reads at each time step.
#[derive(Clone, Debug)]
pub enum RunInput {
    /// Vectors, to be multiplied.
    Sequence {
        /// The whole sequence, `[B, T, I]`.
        values: Tensor<3>,
        /// The weights of the input.
        weights: RecurrentMatrix,
    },
    /// Tokens, whose products with the weights of the input are known.
    Tokens {
        /// The index of a row of `products` for each time step, `[B, T]`.
        tokens: Tensor<2, Int>,
        /// The products of each token, `[V, 1, G·U]` in 32 bits.
        products: Tensor<3>,
    },
}

impl RunInput {
    /// B and T.
    pub(crate) fn rows(&self) -> [usize; 2] {
        match self {
            Self::Sequence { values, .. } => [values.dims()[0], values.dims()[1]],
            Self::Tokens { tokens, .. } => tokens.dims(),
        }
    }
}

/// The inputs of a forward pass over some steps, for a cell with `S` states.
#[derive(Debug)]
pub struct RunStart<const S: usize> {
    /// The whole sequence.
    pub input: RunInput,
    /// The steps.
    pub steps: Range<usize>,
    /// Steps of a run, for which a backward pass wants gates and states; the last run may be shorter. A GPU, and Burn's
    /// operations, have one run.
    pub run: usize,
    /// The bias of the gates, as the cell reads it.
    pub bias: Tensor<1>,
    /// The states before the first step, hidden units first, `[B, U]` in 32 bits.
    pub state: [Tensor<2>; S],
    /// The destination of the outputs.
    pub outputs: RunOutputs,
    /// Whether the activated gates are returned.
    pub keeps_gates: bool,
}

/// The destination of outputs, `[B, T, U]` in the format of products.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is moved once for each run of steps")]
pub enum RunOutputs {
    /// None: the outputs are known.
    Known,
    /// A tensor that holds the outputs of other steps. Our own kernels on the CPU write all steps at once.
    There(Tensor<3>),
    /// A new tensor: the steps are the whole sequence.
    New,
}

impl RunOutputs {
    /// The tensor that holds the outputs of other steps.
    pub fn there(self) -> Option<Tensor<3>> {
        match self {
            Self::There(outputs) => Some(outputs),
            Self::Known | Self::New => None,
        }
    }
}

/// The results of a forward pass over some steps.
#[derive(Debug)]
pub struct RunSteps<const S: usize> {
    /// The activated gates of each run, `[B, k, G·U]` in the format of products; empty if they are not wanted.
    pub gates: Vec<Tensor<3>>,
    /// The states before each run but the first, `[B, U]` in 32 bits.
    pub between: Vec<[Tensor<2>; S]>,
    /// All outputs, including those of these steps, if wanted.
    pub output: Option<Tensor<3>>,
    /// The states after the last step, `[B, U]` in 32 bits.
    pub state: [Tensor<2>; S],
}

/// Runs of that many steps, the last of which may be shorter.
pub(crate) fn runs(steps: Range<usize>, length: usize) -> impl Iterator<Item = Range<usize>> + Clone {
    let end = steps.end;
    steps.step_by(length.max(1)).map(move |start| start..(start + length).min(end))
}

/// The inputs of a backward pass through a run of steps.
#[derive(Debug)]
pub struct RunEnd<const S: usize> {
    /// The activated gates, `[B, k, G·U]`.
    pub gates: Tensor<3>,
    /// The states before the first step.
    pub before: [Tensor<2>; S],
    /// The steps of the run.
    pub steps: Range<usize>,
    /// The gradient of all outputs, `[B, T, U]`.
    pub outputs: Tensor<3>,
    /// The gradients of the states after the last step.
    pub after: [Tensor<2>; S],
}

/// The gradients of a run of steps.
#[derive(Debug)]
pub struct RunGradients<const S: usize> {
    /// The gradient of the input's products and bias, `[B, k, G·U]` in 32 bits.
    pub gates: Tensor<3>,
    /// The gradient of the hidden units' products and bias, `[B, k, G·U]` in 32 bits, where it differs from `gates`.
    pub of_hidden: Option<Tensor<3>>,
    /// The hidden units before each step, `[B, k, U]` in 32 bits: the factor of the recurrent weights' gradient.
    pub previous: Tensor<3>,
    /// The gradients of the states before the first step.
    pub state: [Tensor<2>; S],
}

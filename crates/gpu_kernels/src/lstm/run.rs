use std::ops::Range;

use burn_cubecl::{CubeRuntime, tensor::CubeTensor};

/// The inputs of a forward pass over a run of steps.
#[derive(Debug)]
pub struct LstmStart<R: CubeRuntime> {
    /// The whole sequence, `[B, T, I]`, in 32 or 16 bits.
    pub input: CubeTensor<R>,
    /// The steps of the run.
    pub steps: Range<usize>,
    /// The sum of both biases, `[4U]` in 32 bits.
    pub bias: CubeTensor<R>,
    /// Hidden units and cell before the first step, `[B, U]` in 32 bits.
    pub state: [CubeTensor<R>; 2],
    /// The destination of the outputs.
    pub outputs: LstmOutputs<R>,
    /// Whether the activated gates are returned.
    pub keeps_gates: bool,
}

/// The destination of outputs, `[B, T, U]` in the format of products.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one lives for a moment")]
pub enum LstmOutputs<R: CubeRuntime> {
    /// None: the outputs are known.
    Known,
    /// A tensor that holds the outputs of other runs. It is written in place, if nobody else holds it.
    There(CubeTensor<R>),
    /// A new tensor: the run is the whole sequence.
    New,
}

/// The results of a forward pass over a run of steps.
#[derive(Debug)]
pub struct LstmSteps<R: CubeRuntime> {
    /// The activated gates, `[B, k, 4U]` in the format of products, if wanted.
    pub gates: Option<CubeTensor<R>>,
    /// All outputs, including those of the run, if wanted.
    pub output: Option<CubeTensor<R>>,
    /// Hidden units and cell after the last step, `[B, U]` in 32 bits.
    pub state: [CubeTensor<R>; 2],
}

/// The inputs of a backward pass through a run of steps.
#[derive(Debug)]
pub struct LstmEnd<R: CubeRuntime> {
    /// The activated gates, `[B, k, 4U]`, in the format of products or in 32 bits. In 32 bits they are overwritten, if nobody
    /// else holds them.
    pub gates: CubeTensor<R>,
    /// Hidden units and cell before the first step, `[B, U]` in 32 bits.
    pub before: [CubeTensor<R>; 2],
    /// The steps of the run.
    pub steps: Range<usize>,
    /// The gradient of all outputs, `[B, T, U]`, in 32 or 16 bits.
    pub outputs: CubeTensor<R>,
    /// The gradient of hidden units and cell after the last step, `[B, U]` in 32 bits.
    pub after: [CubeTensor<R>; 2],
}

/// The gradients of a run of steps.
#[derive(Debug)]
pub struct LstmGradients<R: CubeRuntime> {
    /// The gradient of the gates before their activation, `[B, k, 4U]` in 32 bits.
    pub gates: CubeTensor<R>,
    /// The hidden units before each step, `[B, k, U]` in 32 bits: the factor of the recurrent weights' gradient.
    pub previous: CubeTensor<R>,
    /// The gradients of hidden units and cell before the first step, `[B, U]` in 32 bits.
    pub state: [CubeTensor<R>; 2],
}

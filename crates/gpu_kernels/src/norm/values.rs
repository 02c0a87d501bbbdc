//! What goes into and out of a normalisation.

use burn_cubecl::{CubeRuntime, tensor::CubeTensor};

use super::affine::Affine;

/// A term added to a normalised activation.
#[derive(Clone, Debug)]
pub struct Addend<R: CubeRuntime> {
    /// The term, `[B, C, H, W]`.
    pub values: CubeTensor<R>,
    /// Its own normalisation; `None` for a plain tensor.
    pub affine: Option<Affine<R>>,
}

/// What a normalisation was applied to, and how.
#[derive(Clone, Debug)]
pub struct NormInput<R: CubeRuntime> {
    /// The input, `[B, C, H, W]`.
    pub input: CubeTensor<R>,
    /// The normalisation.
    pub affine: Affine<R>,
    /// 1 / √(variance + ε) of each channel, `[C]` in 32 bits.
    pub inverse: CubeTensor<R>,
    /// Whether the output was rectified.
    pub rectified: bool,
}

/// The gradients of the learned weight and shift: with x̂ the normalised input, Σ g·x̂ and Σ g over each channel.
#[derive(Clone, Debug)]
pub struct NormSums<R: CubeRuntime> {
    /// The gradient of the weight, `[C]` in 32 bits.
    pub weight: CubeTensor<R>,
    /// The gradient of the shift, `[C]` in 32 bits.
    pub shift: CubeTensor<R>,
}

/// The gradients of a normalisation.
#[derive(Clone, Debug)]
pub struct NormGradients<R: CubeRuntime> {
    /// The gradient of the input, `[B, C, H, W]` in the format of the input.
    pub input: CubeTensor<R>,
    /// The gradients of weight and shift.
    pub sums: NormSums<R>,
}

/// Mean and biased variance of each channel.
#[derive(Clone, Debug)]
pub struct Moments<R: CubeRuntime> {
    /// The means, `[C]` in 32 bits.
    pub mean: CubeTensor<R>,
    /// The biased variances, `[C]` in 32 bits.
    pub variance: CubeTensor<R>,
}

use burn::tensor::{Int, Tensor};

use super::{RecurrentMatrix, RunInput, tokens::token_products};
use crate::{any_tensor::AnyTensor, kernels::Kernels};

/// What a recurrent layer reads.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "it is moved once for each layer")]
pub enum RecurrentInput {
    /// A sequence of vectors, `[B, T, I]`.
    Vectors(Tensor<3>),
    /// Tokens. The layer multiplies the vector of each token once, however often it stands in the batch,
    /// and sums the gradients of all its places before it multiplies them.
    Tokens {
        /// Indices of vectors, `[B, T]`.
        tokens: Tensor<2, Int>,
        /// A vector for each token, `[V, I]` in 32 bits.
        vectors: Tensor<2>,
    },
}

impl From<Tensor<3>> for RecurrentInput {
    fn from(vectors: Tensor<3>) -> Self {
        Self::Vectors(vectors)
    }
}

impl RecurrentInput {
    /// B, T and I.
    pub fn dims(&self) -> [usize; 3] {
        match self {
            Self::Vectors(vectors) => vectors.dims(),
            Self::Tokens { tokens, vectors } => {
                let ([batch, steps], [_, features]) = (tokens.dims(), vectors.dims());
                [batch, steps, features]
            }
        }
    }

    /// The tensor that has a gradient.
    pub fn tensor(&self) -> AnyTensor {
        match self {
            Self::Vectors(vectors) => vectors.clone().into(),
            Self::Tokens { vectors, .. } => vectors.clone().into(),
        }
    }

    /// Rows that are multiplied by the weights of the input at once, where `at_once` steps of a sequence are.
    pub(crate) fn rows(&self, at_once: usize) -> usize {
        match self {
            Self::Vectors(vectors) => vectors.dims()[0] * at_once,
            Self::Tokens { vectors, .. } => vectors.dims()[0],
        }
    }

    /// The input of the kernels, with the weights that it is multiplied by.
    pub(crate) fn of_run(&self, weights: RecurrentMatrix, kernels: Kernels) -> RunInput {
        match self.clone() {
            Self::Vectors(values) => RunInput::Sequence { values, weights },
            Self::Tokens { tokens, vectors } => {
                RunInput::Tokens { tokens, products: token_products(vectors, &weights, kernels) }
            }
        }
    }
}

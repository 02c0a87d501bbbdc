use burn::tensor::{Int, Tensor, module::embedding};
use oomph_kernels::recurrent::{RecurrentMatrix, RunInput, token_products};

use crate::{AnyTensor, Kernels, Policy, autodiff};

/// What a recurrent layer reads.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "it is moved once for each layer")]
pub enum RecurrentInput {
    /// A sequence of vectors, `[B, T, I]`.
    Vectors(Tensor<3>),
    /// Tokens. A [lean](Policy::lean) layer multiplies the vector of each token once, however often it stands in the batch,
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
    pub(super) fn dims(&self) -> [usize; 3] {
        match self {
            Self::Vectors(vectors) => vectors.dims(),
            Self::Tokens { tokens, vectors } => {
                let ([batch, steps], [_, features]) = (tokens.dims(), vectors.dims());
                [batch, steps, features]
            }
        }
    }

    /// The tensor that has a gradient.
    pub(crate) fn tensor(&self) -> AnyTensor {
        match self {
            Self::Vectors(vectors) => vectors.clone().into(),
            Self::Tokens { vectors, .. } => vectors.clone().into(),
        }
    }

    /// The vectors of all steps, in the format of the policy where they are looked up.
    pub(crate) fn looked_up(self, policy: Policy) -> Tensor<3> {
        match self {
            Self::Vectors(vectors) => vectors,
            Self::Tokens { tokens, vectors } => policy.narrow(embedding(vectors, tokens)),
        }
    }

    /// The input off the graph, with vectors in the format of the policy.
    pub(super) fn plain(self, policy: Policy) -> Self {
        match self {
            Self::Vectors(vectors) => Self::Vectors(autodiff::inner(vectors)),
            Self::Tokens { tokens, vectors } => {
                Self::Tokens { tokens, vectors: policy.narrow(autodiff::inner(vectors)) }
            }
        }
    }

    /// Rows that are multiplied by the weights of the input at once, where `at_once` steps of a sequence are.
    pub(super) fn rows(&self, at_once: usize) -> usize {
        match self {
            Self::Vectors(vectors) => vectors.dims()[0] * at_once,
            Self::Tokens { vectors, .. } => vectors.dims()[0],
        }
    }

    /// The input of the kernels, with the weights that it is multiplied by.
    pub(super) fn of_run(&self, weights: RecurrentMatrix, kernels: Kernels) -> RunInput {
        match self.clone() {
            Self::Vectors(values) => RunInput::Sequence { values, weights },
            Self::Tokens { tokens, vectors } => {
                RunInput::Tokens { tokens, products: token_products(vectors, &weights, kernels) }
            }
        }
    }
}

/// Whether layers of this policy multiply the vectors of so many different tokens, where rows [`outnumber`] them. Of more tokens the
/// gradients would wait too long for those of the layer: both are complete at once.
pub(crate) fn multiplies_tokens(tokens: usize, policy: Policy) -> bool {
    const MOST: usize = 1024;
    policy.lean && policy.kernels == Kernels::Cpu && tokens <= MOST
}

/// Whether a batch has so many rows that tokens are the faster input, and their products take no more memory than the vectors of all
/// rows would.
pub(crate) fn outnumber(rows: usize, tokens: usize) -> bool {
    /// Gates of a unit.
    const GATES: usize = 4;
    rows >= GATES * tokens
}

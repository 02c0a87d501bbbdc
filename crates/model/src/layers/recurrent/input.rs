use burn::tensor::{Int, Tensor, module::embedding};
use oomph_kernels::recurrent::{RecurrentMatrix, RunInput, token_products};

use crate::{AnyTensor, Kernels, Policy, autodiff};

/// What a recurrent layer reads.
#[derive(Clone, Debug)]
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

    /// The input of the kernels.
    pub(super) fn of_run(&self, of_input: &RecurrentMatrix, kernels: Kernels) -> RunInput {
        match self.clone() {
            Self::Vectors(vectors) => RunInput::Sequence(vectors),
            Self::Tokens { tokens, vectors } => {
                RunInput::Tokens { tokens, products: token_products(vectors, of_input, kernels) }
            }
        }
    }
}

/// Whether a lean layer that reads so many rows of a batch is faster, and needs less memory, with tokens than with their
/// vectors: the products of all tokens take no more memory than the vectors would.
pub(crate) fn multiplies_tokens([tokens, rows]: [usize; 2], policy: Policy) -> bool {
    /// Gates of a unit.
    const GATES: usize = 4;
    policy.lean && policy.kernels == Kernels::Cpu && GATES * tokens <= rows
}

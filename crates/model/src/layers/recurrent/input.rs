use burn::tensor::{Tensor, module::embedding};
use oomph_kernels::recurrent::RecurrentInput;

use crate::{Kernels, Policy, autodiff};

/// The vectors of all steps, in the format of the policy where they are looked up.
pub(crate) fn looked_up(input: RecurrentInput, policy: Policy) -> Tensor<3> {
    match input {
        RecurrentInput::Vectors(vectors) => vectors,
        RecurrentInput::Tokens { tokens, vectors } => policy.narrow(embedding(vectors, tokens)),
    }
}

/// The input off the graph, with vectors in the format of the policy.
pub(super) fn plain(input: RecurrentInput, policy: Policy) -> RecurrentInput {
    match input {
        RecurrentInput::Vectors(vectors) => RecurrentInput::Vectors(autodiff::inner(vectors)),
        RecurrentInput::Tokens { tokens, vectors } => {
            let vectors = policy.narrow(autodiff::inner(vectors));
            RecurrentInput::Tokens { tokens, vectors }
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

//! Scaled dot-product attention (Vaswani et al. 2017, <https://arxiv.org/abs/1706.03762>) that never holds its matrix (Dao et al.
//! 2022, <https://arxiv.org/abs/2205.14135>).
//!
//! Forward computes a block of queries with one block of keys after the other, and keeps of each row of the matrix its output and the
//! logarithm of its sum. Backward computes the blocks again. Memory is linear in the positions.
//!
//! Letters: B batch, T positions, H heads of queries, G heads of keys and of values, D features of a head. Head h of the queries reads
//! head h / (H / G) of the keys and values (Ainslie et al. 2023, <https://arxiv.org/abs/2305.13245>).

mod backward;
mod block;
mod cached;
mod composed;
mod forward;
mod heads;
mod matrix;
mod next;
mod rotary;
mod rows;
mod stripe;
#[cfg(test)]
mod tests;

use burn::tensor::Tensor;

use crate::{dropout::DropoutMask, kernels::Kernels};

pub use cached::KeysAndValues;
pub use heads::Heads;
pub use rotary::rotary_angles;

/// An attention: softmax(QKᵀ/√D)V.
#[derive(Clone, Debug)]
pub struct Attention {
    /// The heads.
    pub heads: Heads,
    /// Whether a position reads only itself and those before it.
    pub is_causal: bool,
    /// The base of the rotary angles of queries and keys ([`rotary_angles`]), if their positions are rotary.
    pub rotary: Option<f32>,
    /// The dropout of the matrix, an element for each batch, head, query and key, in this order.
    pub dropout: Option<DropoutMask>,
}

/// The output of an attention, and the values that backward needs.
#[derive(Clone, Debug)]
pub struct Attended {
    /// The output, `[B, T, H·D]`, in the format of the input.
    pub output: Tensor<3>,
    /// The logarithm of the sum of each row of exp(QKᵀ/√D), `[B, T, H]`.
    pub log_sums: Tensor<3>,
}

impl Attention {
    /// Attends. `input` has queries, keys and values side by side: `[B, T, (H + 2G)·D]`.
    pub fn forward(&self, input: Tensor<3>, kernels: Kernels) -> Attended {
        match kernels {
            Kernels::Cpu => forward::own(self, input),
            Kernels::Gpu | Kernels::Composed => composed::forward(self, input, kernels),
        }
    }

    /// The output by Burn's operations, in the autodiff graph of the input. It holds the whole matrix, `[B, H, T, T]`, several times.
    pub fn in_graph(&self, input: Tensor<3>) -> Tensor<3> {
        composed::in_graph(self, input)
    }

    /// The gradient of the input, in its format. `gradient` is that of the output, `[B, T, H·D]`.
    pub fn backward(
        &self,
        input: Tensor<3>,
        attended: Attended,
        gradient: Tensor<3>,
        kernels: Kernels,
    ) -> Tensor<3> {
        match kernels {
            Kernels::Cpu => backward::own(self, input, attended, gradient),
            Kernels::Gpu | Kernels::Composed => composed::backward(self, input, attended, gradient, kernels),
        }
    }
}

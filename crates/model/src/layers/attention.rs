use burn::tensor::Tensor;
use oomph_core::Mode;
use oomph_kernels::{
    DropoutMask,
    attention::{Attention, Heads},
    differentiable, ranked,
};

use crate::{KeyValueCache, LayerKind, Pass, Policy, autodiff::inner};

/// Scaled dot-product attention between the positions of a sequence, softmax(QKᵀ/√D)V, without parameters.
///
/// A [lean](crate::Policy::lean) layer never holds the matrix of T × T scores ([`oomph_kernels::attention`]): it keeps its input, its
/// output, and one number for each row of the matrix. Of Burn's operations three matrices are kept.
///
/// A pass with a [cache](crate::KeyValueCache) attends to the positions in it too, and adds its own.
///
/// # Shapes
/// - input `[B, T, (H + 2G)·D]`: queries, keys and values side by side; output `[B, T, H·D]`
#[derive(Clone, Debug, PartialEq)]
pub struct SelfAttention {
    /// The heads.
    pub heads: Heads,
    /// Whether a position reads only itself and those before it.
    pub is_causal: bool,
    /// The base of rotary positions, if they are rotary.
    pub rotary: Option<f64>,
    /// The probability that an element of the matrix is dropped in training.
    pub dropout: f64,
}

impl SelfAttention {
    /// Attends.
    ///
    /// # Panics
    /// If the pass has a cache, and the attention is not causal.
    pub fn forward(&self, input: Tensor<3>, pass: &mut Pass) -> Tensor<3> {
        let dims = input.dims();
        let policy = pass.policy();
        let attention = self.operation(pass);
        let output = match (pass.cache.take(), policy.lean) {
            (Some(mut cache), _) => {
                let output = after(&mut cache, pass.place(), &attention, input, policy);
                pass.cache = Some(cache);
                output
            }
            (None, true) => lean(attention, input, policy),
            (None, false) => attention.in_graph(input),
        };
        pass.layer(LayerKind("SelfAttention"), &dims, &output.dims(), 0);
        output
    }

    fn operation(&self, pass: &mut Pass) -> Attention {
        let drops = pass.mode() != Mode::Eval && self.dropout > 0.0;
        Attention {
            heads: self.heads,
            is_causal: self.is_causal,
            rotary: self.rotary.map(|base| base as f32),
            dropout: drops.then(|| DropoutMask {
                generator: pass.generator(),
                probability: self.dropout as f32,
                scale: (1.0 / (1.0 - self.dropout)) as f32,
            }),
        }
    }
}

/// Attends from positions that follow those in the cache, and adds them.
fn after(
    cache: &mut KeyValueCache,
    place: String,
    attention: &Attention,
    input: Tensor<3>,
    policy: Policy,
) -> Tensor<3> {
    let (before, capacity) = (cache.take(&place), cache.capacity());
    let (output, all) = attention.forward_after(before, input, capacity, policy.kernels);
    cache.put(place, all);
    output
}

fn lean(attention: Attention, input: Tensor<3>, policy: Policy) -> Tensor<3> {
    let kept = inner(input.clone());
    let attended = attention.forward(kept.clone(), policy.kernels);
    let output = attended.output.clone();
    ranked(differentiable([input.into()], output.into(), move |gradient, _| {
        [Some(attention.backward(kept, attended, ranked(gradient), policy.kernels).into())]
    }))
}

//! Attention of the positions that continue a sequence: its keys and values are kept, not computed again.

use burn::tensor::{Tensor, activation::softmax};

use super::{
    Attention,
    composed::{in_heads, side_by_side, wide, without_later},
    next,
};
use crate::{cast::cast, kernels::Kernels};

/// Keys and values of the positions that a causal attention has read, in 32 bits.
#[derive(Clone, Debug)]
pub struct KeysAndValues {
    /// `[B, G, C, D]`, of which the first positions are read; turned if positions are rotary.
    keys: Tensor<4>,
    /// `[B, G, C, D]`.
    values: Tensor<4>,
    /// The number of positions that were read, at most C.
    positions: usize,
}

impl KeysAndValues {
    /// The number of positions that were read.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// Whether one more position needs no more memory.
    fn has_room(&self) -> bool {
        self.positions < self.keys.dims()[2]
    }

    /// Attends from one more position, and adds it.
    fn followed_by(self, attention: &Attention, input: Tensor<3>) -> (Tensor<3>, Self) {
        let Self { keys, values, positions } = self;
        let (output, [keys, values]) =
            next::own(attention.heads, attention.rotary, input, [keys, values], positions);
        (output, Self { keys, values, positions: positions + 1 })
    }

    /// Adds keys and values `[B, G, T, D]`. There is room for `capacity` positions, or for all there are if these are more.
    fn extended(before: Option<Self>, [keys, values]: [Tensor<4>; 2], capacity: usize) -> Self {
        let [batch, heads, more, size] = keys.dims();
        let first = before.as_ref().map_or(0, Self::positions);
        let end = first + more;
        let room = |tensor: Option<Tensor<4>>, more: Tensor<4>| {
            let tensor = match tensor {
                Some(tensor) if end <= tensor.dims()[2] => tensor,
                tensor => {
                    let large = Tensor::zeros([batch, heads, capacity.max(end), size], &more.device());
                    match tensor {
                        Some(tensor) => large.slice_assign(
                            [0..batch, 0..heads, 0..first, 0..size],
                            tensor.narrow(2, 0, first),
                        ),
                        None => large,
                    }
                }
            };
            tensor.slice_assign([0..batch, 0..heads, first..end, 0..size], more)
        };
        let (keys_before, values_before) = before.map(|before| (before.keys, before.values)).unzip();
        Self { keys: room(keys_before, keys), values: room(values_before, values), positions: end }
    }
}

impl Attention {
    /// Attends from the positions of `input`, `[B, T, (H + 2G)·D]`, which follow those in `before`, to all of these. Gives the output,
    /// `[B, T, H·D]` in the format of the input, and the keys and values of all positions. There is no gradient and no dropout.
    ///
    /// Our own kernels compute the first positions, and on the CPU one more. The rest is composed of Burn's operations. `capacity` is the
    /// number of positions that the sequence will probably have.
    ///
    /// # Panics
    /// If the attention is not causal: earlier positions would have to read the new ones too.
    pub fn forward_after(
        &self,
        before: Option<KeysAndValues>,
        input: Tensor<3>,
        capacity: usize,
        kernels: Kernels,
    ) -> (Tensor<3>, KeysAndValues) {
        assert!(self.is_causal, "earlier positions never read later ones");
        let (heads, dtype) = (self.heads, input.dtype());
        let before = match before {
            Some(before) if kernels == Kernels::Cpu && input.dims()[1] == 1 && before.has_room() => {
                return before.followed_by(self, input);
            }
            before => before,
        };
        let first = before.as_ref().map_or(0, KeysAndValues::positions);
        let floats = wide(input.clone());
        let columns =
            |start: usize, count: usize| in_heads(floats.clone().narrow(2, start, count * heads.size), count);
        let of_keys = columns(heads.of_queries(), heads.keys);
        let of_values = columns(heads.of_queries() + heads.of_keys(), heads.keys);
        let new = [self.turned_from(first, of_keys, false), of_values];
        let all = KeysAndValues::extended(before, new, capacity);
        if first == 0 {
            return (self.forward(input, kernels).output, all);
        }
        let queries = self.turned_from(first, columns(0, heads.queries), false);
        let [batch, _, count, size] = queries.dims();
        let queries =
            queries.mul_scalar(heads.scale()).reshape([batch, heads.keys, heads.group() * count, size]);
        let read = |tensor: &Tensor<4>| tensor.clone().narrow(2, 0, all.positions);
        let scores = queries.matmul(read(&all.keys).transpose());
        let scores = if count > 1 { without_later(scores, first, count) } else { scores };
        let output = softmax(scores, 3).matmul(read(&all.values));
        let output = side_by_side(output.reshape([batch, heads.queries, count, size]));
        (cast(output, dtype, Kernels::Composed), all)
    }
}

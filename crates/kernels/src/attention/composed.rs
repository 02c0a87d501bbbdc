//! The twin of the kernel, composed of Burn's operations: a block of queries with all its keys at a time.

use std::ops::Range;

use burn::tensor::{DType, Tensor, TensorData, activation::softmax};

use super::{Attended, Attention, Heads, block::blocks, rotary::rotary_angles};
use crate::{
    cast::{cast, cast_in_graph},
    dropout::{DropoutMask, dropped},
    kernels::Kernels,
};

/// Queries of a block.
const QUERIES: usize = 256;

/// Below every score, and still finite: ∞ − ∞ would be no number.
const UNREAD: f32 = -1e30;

/// Queries, keys and values, `[B, H, T, D]` in 32 bits. Keys and values are repeated for each head that reads them.
struct Parts {
    /// Scaled, and turned if their positions are rotary.
    queries: Tensor<4>,
    /// Turned, if their positions are rotary.
    keys: Tensor<4>,
    values: Tensor<4>,
}

/// The output by Burn's operations, in the autodiff graph of the input. It holds the whole matrix.
pub(super) fn in_graph(attention: &Attention, input: Tensor<3>) -> Tensor<3> {
    let ([_, positions, _], dtype) = (input.dims(), input.dtype());
    let parts = attention.parts(input);
    let all = 0..positions;
    let block = softmax(attention.scores(&parts, &all, &all), 3);
    let block = match &attention.dropout {
        Some(mask) => {
            let factors = mask.tensor(&block);
            block * factors
        }
        None => block,
    };
    cast_in_graph(side_by_side(block.matmul(parts.values)), dtype, Kernels::Composed)
}

pub(super) fn forward(attention: &Attention, input: Tensor<3>, kernels: Kernels) -> Attended {
    let ([_, positions, _], dtype) = (input.dims(), input.dtype());
    let parts = attention.parts(input);
    let made = blocks(0..positions, QUERIES).map(|queries| {
        let keys = 0..attention.last_key(&queries, positions);
        let scores = attention.scores(&parts, &queries, &keys);
        let greatest = scores.clone().max_dim(3);
        let block = (scores - greatest.clone()).exp();
        let sums = block.clone().sum_dim(3);
        let block = attention.dropped(block / sums.clone(), &queries, kernels);
        (block.matmul(part(&parts.values, &keys)), greatest + sums.log())
    });
    let (outputs, log_sums): (Vec<_>, Vec<_>) = made.unzip();
    let output = side_by_side(Tensor::cat(outputs, 2));
    Attended {
        output: cast(output, dtype, Kernels::Composed),
        log_sums: side_by_side(Tensor::cat(log_sums, 2)),
    }
}

pub(super) fn backward(
    attention: &Attention,
    input: Tensor<3>,
    attended: Attended,
    gradient: Tensor<3>,
    kernels: Kernels,
) -> Tensor<3> {
    let ([_, positions, _], dtype, heads) = (input.dims(), input.dtype(), attention.heads);
    let parts = attention.parts(input);
    let Attended { output, log_sums } = attended;
    let log_sums = in_heads(log_sums, heads.queries);
    let [output, gradient] = [output, gradient].map(|tensor| in_heads(wide(tensor), heads.queries));
    let means = (output * gradient.clone()).sum_dim(3);
    let [mut of_keys, mut of_values] = [&parts.keys, &parts.values].map(|like| like.zeros_like());
    let mut of_queries = Vec::new();
    for queries in blocks(0..positions, QUERIES) {
        let keys = 0..attention.last_key(&queries, positions);
        let scores = attention.scores(&parts, &queries, &keys);
        let block = (scores - part(&log_sums, &queries)).exp();
        let of_output = part(&gradient, &queries);
        let slopes = of_output.clone().matmul(part(&parts.values, &keys).transpose());
        let slopes = attention.dropped(slopes, &queries, kernels);
        let slopes = block.clone() * (slopes - part(&means, &queries));
        let block = attention.dropped(block, &queries, kernels);
        of_values = added(of_values, &keys, block.transpose().matmul(of_output));
        of_keys = added(of_keys, &keys, slopes.clone().transpose().matmul(part(&parts.queries, &queries)));
        of_queries.push(slopes.matmul(part(&parts.keys, &keys)));
    }
    let of_queries = attention.turned(Tensor::cat(of_queries, 2), true).mul_scalar(heads.scale());
    let of_keys = summed(attention.turned(of_keys, true), heads);
    let gradients = [of_queries, of_keys, summed(of_values, heads)].map(side_by_side);
    cast(Tensor::cat(gradients.to_vec(), 2), dtype, Kernels::Composed)
}

impl Attention {
    fn parts(&self, input: Tensor<3>) -> Parts {
        let heads = self.heads;
        let input = wide(input);
        let columns = |first: usize, count: usize| input.clone().narrow(2, first, count);
        let queries = in_heads(columns(0, heads.of_queries()), heads.queries);
        let keys = in_heads(columns(heads.of_queries(), heads.of_keys()), heads.keys);
        let values = in_heads(columns(heads.of_queries() + heads.of_keys(), heads.of_keys()), heads.keys);
        Parts {
            queries: self.turned(queries, false).mul_scalar(heads.scale()),
            keys: repeated(self.turned(keys, false), heads),
            values: repeated(values, heads),
        }
    }

    /// The end of the keys that a block of queries reads.
    fn last_key(&self, queries: &Range<usize>, positions: usize) -> usize {
        if self.is_causal { queries.end } else { positions }
    }

    fn scores(&self, parts: &Parts, queries: &Range<usize>, keys: &Range<usize>) -> Tensor<4> {
        let scores = part(&parts.queries, queries).matmul(part(&parts.keys, keys).transpose());
        if !self.is_causal {
            return scores;
        }
        // Queries and the last keys are the same positions: there the later ones are left out.
        let count = queries.len();
        let own = scores.clone().narrow(3, queries.start, count);
        let own = without_later(own, 0, count);
        match queries.start {
            0 => own,
            before => Tensor::cat(vec![scores.narrow(3, 0, before), own], 3),
        }
    }

    /// Drops elements of a block of the matrix. Each block has its own numbers.
    fn dropped(&self, block: Tensor<4>, queries: &Range<usize>, kernels: Kernels) -> Tensor<4> {
        let Some(mask) = &self.dropout else { return block };
        let [batch, heads, _, keys] = block.dims();
        let mut generator = mask.generator.clone();
        // No block of earlier queries has more keys than this one.
        generator.skip_uniforms((batch * heads * queries.start * keys) as u64);
        dropped(block, &DropoutMask { generator, ..*mask }, kernels)
    }

    /// Turns `[B, H, T, D]` by the angles of its positions, or `back`.
    fn turned(&self, rows: Tensor<4>, back: bool) -> Tensor<4> {
        self.turned_from(0, rows, back)
    }

    /// The same of the positions from `first` on.
    pub(super) fn turned_from(&self, first: usize, rows: Tensor<4>, back: bool) -> Tensor<4> {
        let Some(base) = self.rotary else { return rows };
        let [_, _, positions, size] = rows.dims();
        let angles = rotary_angles(first..first + positions, size, base);
        let angles = TensorData::new(angles, [1, 1, positions, size]);
        let angles = Tensor::<4>::from_data(angles, &rows.device());
        let half = |of: &Tensor<4>, index: usize| of.clone().narrow(3, index * size / 2, size / 2);
        let [cosines, sines] = [0, 1].map(|index| half(&angles, index));
        let sines = if back { sines.neg() } else { sines };
        let [first, second] = [0, 1].map(|index| half(&rows, index));
        let turned = first.clone() * cosines.clone() - second.clone() * sines.clone();
        Tensor::cat(vec![turned, second * cosines + first * sines], 3)
    }
}

/// The scores of `count` queries of each head, `[…, rows, keys]`, where none reads a later key. The first query is at the position `first`, and
/// the first key at 0.
pub(super) fn without_later(scores: Tensor<4>, first: usize, count: usize) -> Tensor<4> {
    let [_, _, rows, keys] = scores.dims();
    let unread = |at: usize| if at % keys > first + at / keys % count { UNREAD } else { 0.0 };
    let mask = TensorData::new((0..rows * keys).map(unread).collect::<Vec<f32>>(), [1, 1, rows, keys]);
    let mask = Tensor::from_data(mask, &scores.device());
    scores + mask
}

pub(super) fn wide(tensor: Tensor<3>) -> Tensor<3> {
    cast_in_graph(tensor, DType::F32, Kernels::Composed)
}

/// The positions `range` of `[B, H, T, D]`.
fn part(of: &Tensor<4>, range: &Range<usize>) -> Tensor<4> {
    of.clone().narrow(2, range.start, range.len())
}

/// `of` with `more` added to the positions `range`.
fn added(of: Tensor<4>, range: &Range<usize>, more: Tensor<4>) -> Tensor<4> {
    let [batch, heads, positions, size] = of.dims();
    if range.len() == positions {
        return of + more;
    }
    let sum = part(&of, range) + more;
    of.slice_assign([0..batch, 0..heads, range.clone(), 0..size], sum)
}

/// `[B, T, H·D]` as `[B, H, T, D]`.
pub(super) fn in_heads(tensor: Tensor<3>, heads: usize) -> Tensor<4> {
    let [batch, positions, width] = tensor.dims();
    tensor.reshape([batch, positions, heads, width / heads]).swap_dims(1, 2)
}

/// `[B, H, T, D]` as `[B, T, H·D]`.
pub(super) fn side_by_side(tensor: Tensor<4>) -> Tensor<3> {
    let [batch, heads, positions, size] = tensor.dims();
    tensor.swap_dims(1, 2).reshape([batch, positions, heads * size])
}

/// Heads of keys, once for each head of queries that reads them.
fn repeated(keys: Tensor<4>, heads: Heads) -> Tensor<4> {
    let [batch, _, positions, size] = keys.dims();
    if heads.group() == 1 {
        return keys;
    }
    let each: Tensor<5> = keys.reshape([batch, heads.keys, 1, positions, size]);
    each.expand([batch, heads.keys, heads.group(), positions, size]).reshape([
        batch,
        heads.queries,
        positions,
        size,
    ])
}

/// The sums over the heads of queries that read the same keys.
fn summed(gradient: Tensor<4>, heads: Heads) -> Tensor<4> {
    let [batch, _, positions, size] = gradient.dims();
    if heads.group() == 1 {
        return gradient;
    }
    let each: Tensor<5> = gradient.reshape([batch, heads.keys, heads.group(), positions, size]);
    each.sum_dim(2).reshape([batch, heads.keys, positions, size])
}

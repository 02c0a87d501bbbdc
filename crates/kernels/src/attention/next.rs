//! Attention of the one position that follows a sequence, on the CPU.

use burn::tensor::Tensor;
use burn_backend::{DType, Shape};

use super::{
    heads::Heads,
    rotary::{rotary_angles, rotate},
};
use crate::{
    activations::exp,
    any_tensor::ranked,
    custom_op::{CustomOp, Workspace},
    flex_tensor::floats,
    reduce::{change_and_sum, dot, greatest},
    simd::{SimdLoops, vectorised},
    stored_float::{StoredFloat, StoredFloats, by_dtype, with_values},
    workers,
};

/// Attends from one position, `[B, 1, (H + 2G)·D]`, to itself and to the `before` positions whose keys and values are the first of `kept`,
/// each `[B, G, C, D]` with room for one more. Gives the output, and `kept` with the position's own.
pub(super) fn own(
    heads: Heads,
    rotary: Option<f32>,
    input: Tensor<3>,
    kept: [Tensor<4>; 2],
    before: usize,
) -> (Tensor<3>, [Tensor<4>; 2]) {
    let Heads { keys: groups, size, .. } = heads;
    let ([batch, _, _], [_, _, room, _], dtype) = (input.dims(), kept[0].dims(), input.dtype());
    let shape = vec![batch, groups, room, size];
    let [keys, values] = kept;
    let operation = CustomOp {
        name: "attention_next",
        inputs: vec![keys.into(), values.into(), input.into()],
        outputs: vec![
            (shape.clone(), DType::F32),
            (shape, DType::F32),
            (vec![batch, 1, heads.of_queries()], dtype),
        ],
        in_place: 2,
    };
    let workspace = Workspace { of_each: before + 1, tasks: batch * groups, ..Workspace::default() };
    let [keys, values, output] = operation.run_within(workspace, |mut tensors| {
        let rows = Next::new(heads, rotary, StoredFloats::of(&tensors[2]), before);
        for (tensor, row_of) in tensors.iter_mut().zip([Next::key, Next::value]) {
            let kept = f32::storage(tensor).chunks_exact_mut((room * size).max(1)).enumerate();
            kept.for_each(|(head, kept)| {
                kept[before * size..][..size].copy_from_slice(row_of(&rows, head));
            });
        }
        let [keys, values] = [0, 1].map(|index: usize| floats(&tensors[index]));
        let mut output = vec![0.0; batch * heads.of_queries()];
        let tasks = output.chunks_exact_mut((heads.group() * size).max(1)).enumerate();
        workers::each(tasks, workspace, |(head, output), scores| {
            let [keys, values] = [keys, values].map(|all| &all[head * room * size..][..(before + 1) * size]);
            let queries = rows.queries(head);
            vectorised(OfHead { queries, keys, values, size, scores, output });
        });
        tensors.pop();
        tensors.push(by_dtype!(dtype, E => {
            let output = output.into_iter().map(E::rounded).collect();
            E::tensor(output, Shape::from([batch, 1, heads.of_queries()]))
        }));
        tensors
    });
    (ranked(output), [ranked(keys), ranked(values)])
}

/// The new position of each sample: queries, keys and values side by side.
struct Next {
    heads: Heads,
    /// `[B, (H + 2G)·D]`, turned if positions are rotary, with the queries scaled.
    rows: Vec<f32>,
}

impl Next {
    fn new(heads: Heads, rotary: Option<f32>, input: StoredFloats<'_>, position: usize) -> Self {
        let mut rows: Vec<f32> =
            with_values!(input, values => values.iter().map(|value| value.widened()).collect());
        let turned = heads.of_queries() + heads.of_keys();
        for row in rows.chunks_exact_mut(heads.width()) {
            if let Some(base) = rotary {
                let angles = rotary_angles(position..position + 1, heads.size, base);
                row[..turned].chunks_exact_mut(heads.size).for_each(|head| rotate::<false>(head, &angles));
            }
            row[..heads.of_queries()].iter_mut().for_each(|value| *value *= heads.scale());
        }
        Self { heads, rows }
    }

    /// The queries that read the keys with this number, of all samples.
    fn queries(&self, head: usize) -> &[f32] {
        let of_group = self.heads.group() * self.heads.size;
        &self.rows[self.start(head) + head % self.heads.keys * of_group..][..of_group]
    }

    fn key(&self, head: usize) -> &[f32] {
        let column = self.heads.of_queries() + head % self.heads.keys * self.heads.size;
        &self.rows[self.start(head) + column..][..self.heads.size]
    }

    fn value(&self, head: usize) -> &[f32] {
        let column =
            self.heads.of_queries() + self.heads.of_keys() + head % self.heads.keys * self.heads.size;
        &self.rows[self.start(head) + column..][..self.heads.size]
    }

    /// Where the sample of a head of keys begins.
    fn start(&self, head: usize) -> usize {
        head / self.heads.keys * self.heads.width()
    }
}

/// The attention of the queries that share a head of keys.
struct OfHead<'a> {
    queries: &'a [f32],
    keys: &'a [f32],
    values: &'a [f32],
    size: usize,
    /// Room for a number of each key.
    scores: &'a mut [f32],
    output: &'a mut [f32],
}

impl SimdLoops for OfHead<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { queries, keys, values, size, scores, output } = self;
        for (query, output) in queries.chunks_exact(size).zip(output.chunks_exact_mut(size)) {
            for (score, key) in scores.iter_mut().zip(keys.chunks_exact(size)) {
                *score = dot(query, key);
            }
            let most = greatest(scores);
            let sum = change_and_sum(scores, |score| exp::<FUSED>(score - most));
            output.fill(0.0);
            for (score, value) in scores.iter().zip(values.chunks_exact(size)) {
                let share = score / sum;
                output.iter_mut().zip(value).for_each(|(output, value)| *output += share * value);
            }
        }
    }
}

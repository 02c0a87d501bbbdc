use std::ops::Range;

use burn::tensor::Tensor;
use burn_backend::{DType, Shape};
use burn_flex::FlexTensor;

use super::{
    Attended, Attention, Heads,
    block::{KEYS, QUERIES, blocks, drop, live, scale},
    matrix::{Matrix, Numbers},
    rotary::rotary_angles,
    rows::Rows,
};
use crate::{
    activations::exp,
    any_tensor::ranked,
    custom_op::{CustomOp, Workspace, split},
    flex_tensor::tensor,
    panels::OutputRows,
    reduce::{change_and_sum, greatest},
    simd::{SimdLoops, vectorised},
    stored_float::{StoredFloat, StoredFloats, by_dtype},
    uninit::{self, UninitSlice},
    workers,
};

/// Attends by our own kernel.
pub(super) fn own(attention: &Attention, input: Tensor<3>) -> Attended {
    let dims @ [batch, positions, _] = input.dims();
    let (heads, dtype) = (attention.heads, input.dtype());
    let of_head = Sizes::of(attention, positions, dtype);
    let workspace = Workspace {
        shared: attention.angle_elements(positions),
        of_each: of_head.elements(),
        tasks: batch * positions.div_ceil(QUERIES),
        ..Workspace::default()
    };
    let output = vec![batch, positions, heads.of_queries()];
    let log_sums = vec![batch, positions, heads.queries];
    let operation = CustomOp {
        name: if attention.is_causal { "attention_causal" } else { "attention" },
        inputs: vec![input.into()],
        outputs: vec![(output, dtype), (log_sums, DType::F32)],
        in_place: 0,
    };
    let [output, log_sums] = operation.run_within(
        workspace,
        |inputs| by_dtype!(dtype, E => on::<E>(attention, &inputs[0], dims, workspace)),
    );
    Attended { output: ranked(output), log_sums: ranked(log_sums) }
}

fn on<E: StoredFloat>(
    attention: &Attention,
    input: &FlexTensor,
    [batch, positions, width]: [usize; 3],
    workspace: Workspace,
) -> Vec<FlexTensor> {
    let heads = attention.heads;
    let angles = &attention.angles(positions);
    let (of_row, of_sums) = (heads.of_queries(), heads.queries);
    let (output, (log_sums, ())) = uninit::made(batch * positions * of_row, |output| {
        uninit::made(batch * positions * of_sums, |log_sums| {
            let samples = output.parts(positions * of_row).zip(log_sums.parts(positions * of_sums));
            let tasks = samples.enumerate().flat_map(|(sample, (output, log_sums))| {
                let parts = output.parts(QUERIES * of_row).zip(log_sums.parts(QUERIES * of_sums));
                blocks(0..positions, QUERIES).zip(parts).map(move |(queries, (output, log_sums))| Task {
                    attention,
                    rows: Rows {
                        values: StoredFloats::of(input),
                        start: sample * positions * width,
                        width,
                        size: heads.size,
                    },
                    sample,
                    positions,
                    queries,
                    angles,
                    output,
                    log_sums,
                })
            });
            workers::each(tasks, workspace, |task: Task<'_, E>, workspace| {
                vectorised(Work { task, workspace });
            });
        })
    });
    let output = E::tensor(output, Shape::from([batch, positions, of_row]));
    vec![output, tensor(log_sums, &[batch, positions, of_sums])]
}

impl Attention {
    /// Elements of the angles of all positions.
    pub(super) fn angle_elements(&self, positions: usize) -> usize {
        if self.rotary.is_some() { positions * self.heads.size } else { 0 }
    }

    /// The angles of all positions; none if they are not rotary.
    pub(super) fn angles(&self, positions: usize) -> Vec<f32> {
        self.rotary.map(|base| rotary_angles(0..positions, self.heads.size, base)).unwrap_or_default()
    }
}

/// The sizes of the products of a task.
#[derive(Clone, Copy)]
struct Sizes {
    /// Keys in columns, to multiply queries by.
    keys: Matrix,
    /// Values in rows, to multiply the block by.
    values: Matrix,
    heads: Heads,
}

impl Sizes {
    fn of(attention: &Attention, positions: usize, dtype: DType) -> Self {
        let (heads, keys) = (attention.heads, KEYS.min(positions));
        Self {
            keys: Matrix::new(heads.size, keys, dtype),
            values: Matrix::new(keys, heads.size, dtype),
            heads,
        }
    }

    /// The elements of each part of a workspace, in the order of [`Room`].
    fn parts(self) -> [usize; 10] {
        let Self { keys, values, heads } = self;
        let rows = keys.padded_rows(QUERIES);
        [
            QUERIES.max(KEYS) * heads.size,
            keys.elements(),
            values.elements(),
            heads.group() * keys.elements_of_left(QUERIES),
            keys.elements_beside(QUERIES).max(values.elements_beside(QUERIES)),
            rows * KEYS,
            values.elements_of_left(QUERIES),
            rows * heads.of_queries(),
            2 * heads.group() * QUERIES,
            QUERIES * heads.queries,
        ]
    }

    fn elements(self) -> usize {
        self.parts().into_iter().sum()
    }
}

/// The workspace of a task.
struct Room<'a> {
    /// Rows of a head.
    loaded: &'a mut [f32],
    keys: &'a mut [f32],
    values: &'a mut [f32],
    /// The packed queries of the heads that read the same keys.
    packed_queries: &'a mut [f32],
    /// What products need beside.
    beside: &'a mut [f32],
    /// A block of the matrix.
    block: &'a mut [f32],
    /// The same, packed.
    packed_block: &'a mut [f32],
    /// The sums of the outputs, `[queries, H·D]`.
    outputs: &'a mut [f32],
    /// For each head that reads the same keys and each query: the greatest score so far, and the sum.
    states: &'a mut [f32],
    /// The logarithms of the sums, `[queries, H]`.
    log_sums: &'a mut [f32],
}

/// The queries of a block, of all heads.
struct Task<'a, E> {
    attention: &'a Attention,
    rows: Rows<'a>,
    sample: usize,
    positions: usize,
    queries: Range<usize>,
    angles: &'a [f32],
    output: UninitSlice<'a, E>,
    log_sums: UninitSlice<'a>,
}

struct Work<'a, 'b, E> {
    task: Task<'a, E>,
    workspace: &'b mut [f32],
}

impl<E: StoredFloat> SimdLoops for Work<'_, '_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { mut task, workspace } = self;
        let sizes = Sizes::of(task.attention, task.positions, task.rows.values.dtype());
        let [loaded, keys, values, packed_queries, beside, block, packed_block, outputs, states, log_sums] =
            split(workspace, sizes.parts());
        let mut room = Room {
            loaded,
            keys,
            values,
            packed_queries,
            beside,
            block,
            packed_block,
            outputs,
            states,
            log_sums,
        };
        room.outputs.fill(0.0);
        for key in 0..sizes.heads.keys {
            task.attend::<FUSED>(key, sizes, &mut room);
        }
        let heads = sizes.heads;
        room.outputs
            .chunks_exact(heads.of_queries())
            .take(task.queries.len())
            .for_each(|row| task.output.write_first(row));
        task.log_sums.write_first(&room.log_sums[..task.queries.len() * heads.queries]);
    }
}

impl<E> Task<'_, E> {
    /// Computes the outputs of the heads that read one head of keys.
    #[inline(always)]
    fn attend<const FUSED: bool>(&self, key: usize, sizes: Sizes, room: &mut Room<'_>) {
        let (heads, count) = (sizes.heads, self.queries.len());
        let of_head = sizes.keys.elements_of_left(QUERIES);
        let [before, after] = scale(heads, sizes.keys);
        for (index, packed) in room.packed_queries.chunks_exact_mut(of_head).enumerate() {
            let [column, ..] = heads.columns(key * heads.group() + index);
            self.rows.load_turned(self.queries.clone(), column, before, self.angles, room.loaded);
            let loaded = Numbers { elements: room.loaded, stride: heads.size };
            sizes.keys.pack_left(loaded, count, packed);
        }
        let (greatest, sums) = room.states.split_at_mut(heads.group() * QUERIES);
        greatest.fill(f32::NEG_INFINITY);
        sums.fill(0.0);
        let end = if self.attention.is_causal { self.queries.end } else { self.positions };
        for keys in blocks(0..end, KEYS) {
            let [of_keys, of_values] = self.pack(key, &keys, sizes, room);
            for index in 0..heads.group() {
                let query = key * heads.group() + index;
                let packed: &[f32] = &room.packed_queries[index * of_head..][..of_head];
                let scores = OutputRows { elements: &mut *room.block, stride: KEYS };
                of_keys.multiply(count, [packed, room.keys], scores, room.beside, false);
                let states = room.states.split_at_mut(heads.group() * QUERIES);
                let states = [states.0, states.1].map(|states| &mut states[index * QUERIES..][..count]);
                let outputs = &mut room.outputs[query * heads.size..];
                self.weigh::<FUSED>(query, &keys, after, room.block, states, outputs);
                let block = Numbers { elements: room.block, stride: KEYS };
                of_values.pack_left(block, count, room.packed_block);
                let outputs = OutputRows { elements: outputs, stride: heads.of_queries() };
                of_values.multiply(count, [room.packed_block, room.values], outputs, room.beside, true);
            }
        }
        for index in 0..heads.group() {
            self.finish(key * heads.group() + index, index, room);
        }
    }

    /// Packs the keys and the values of a block. Gives their sizes.
    #[inline(always)]
    fn pack(&self, key: usize, keys: &Range<usize>, sizes: Sizes, room: &mut Room<'_>) -> [Matrix; 2] {
        let heads = sizes.heads;
        let [_, key_column, value_column] = heads.columns(key * heads.group());
        let of_keys = sizes.keys.sized(heads.size, keys.len());
        let of_values = sizes.values.sized(keys.len(), heads.size);
        self.rows.load_turned(keys.clone(), key_column, 1.0, self.angles, room.loaded);
        let stride = heads.size;
        of_keys.pack_columns(Numbers { elements: room.loaded, stride }, room.keys);
        self.rows.load(keys.clone(), value_column, 1.0, room.loaded);
        of_values.pack_rows(Numbers { elements: room.loaded, stride }, room.values);
        [of_keys, of_values]
    }

    /// Turns the scores of a block into the terms of the softmax, and scales what was summed before by the new greatest score.
    #[inline(always)]
    fn weigh<const FUSED: bool>(
        &self,
        head: usize,
        keys: &Range<usize>,
        scale: f32,
        block: &mut [f32],
        [greatest_so_far, sums]: [&mut [f32]; 2],
        outputs: &mut [f32],
    ) {
        let heads = self.attention.heads;
        let states = greatest_so_far.iter_mut().zip(sums);
        for ((index, query), (most, sum)) in self.queries.clone().enumerate().zip(states) {
            let scores = &mut block[index * KEYS..][..keys.len()];
            let (scores, unread) = scores.split_at_mut(live(self.attention.is_causal, query, keys));
            unread.fill(0.0);
            if scores.is_empty() {
                continue;
            }
            if scale != 1.0 {
                scores.iter_mut().for_each(|score| *score *= scale);
            }
            let before = std::mem::replace(most, most.max(greatest(scores)));
            let kept = exp::<FUSED>(before - *most);
            *sum = *sum * kept + change_and_sum(scores, |score| exp::<FUSED>(score - *most));
            if before < *most {
                outputs[index * heads.of_queries()..][..heads.size]
                    .iter_mut()
                    .for_each(|output| *output *= kept);
            }
            let at = [self.sample, head, query, keys.start];
            let mut factors = [0.0; KEYS];
            let factors = self.attention.factors(at, self.positions, &mut factors[..scores.len()]);
            drop(scores, factors);
        }
    }

    /// Divides the outputs of a head by their sums.
    #[inline(always)]
    fn finish(&self, head: usize, index: usize, room: &mut Room<'_>) {
        let heads = self.attention.heads;
        let (greatest, sums) = room.states.split_at(heads.group() * QUERIES);
        for row in 0..self.queries.len() {
            let [most, sum] = [greatest, sums].map(|states| states[index * QUERIES + row]);
            room.outputs[row * heads.of_queries() + head * heads.size..][..heads.size]
                .iter_mut()
                .for_each(|output| *output /= sum);
            room.log_sums[row * heads.queries + head] = most + sum.ln();
        }
    }
}

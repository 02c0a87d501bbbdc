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
    let sizes = Sizes::of(attention, [batch, positions], dtype);
    let workspace = Workspace {
        shared: attention.angle_elements(positions),
        of_each: sizes.elements(),
        tasks: batch * positions.div_ceil(sizes.queries()),
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
        |inputs| by_dtype!(dtype, E => on::<E>(attention, &inputs[0], dims, sizes, workspace)),
    );
    Attended { output: ranked(output), log_sums: ranked(log_sums) }
}

fn on<E: StoredFloat>(
    attention: &Attention,
    input: &FlexTensor,
    [batch, positions, width]: [usize; 3],
    sizes: Sizes,
    workspace: Workspace,
) -> Vec<FlexTensor> {
    let (heads, of_task) = (attention.heads, sizes.queries());
    let angles = &attention.angles(positions);
    let (of_row, of_sums) = (heads.of_queries(), heads.queries);
    let (output, (log_sums, ())) = uninit::made(batch * positions * of_row, |output| {
        uninit::made(batch * positions * of_sums, |log_sums| {
            let samples = output.parts(positions * of_row).zip(log_sums.parts(positions * of_sums));
            let tasks = samples.enumerate().flat_map(|(sample, (output, log_sums))| {
                let parts = output.parts(of_task * of_row).zip(log_sums.parts(of_task * of_sums));
                blocks(0..positions, of_task).zip(parts).map(move |(queries, (output, log_sums))| Task {
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
                vectorised(Work { task, sizes, workspace });
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
    /// Blocks of queries of a task, which read each packed block of keys.
    blocks: usize,
}

impl Sizes {
    fn of(attention: &Attention, [batch, positions]: [usize; 2], dtype: DType) -> Self {
        /// More would leave the second-level cache before they meet the next keys.
        const MOST_BLOCKS: usize = 4;
        let (heads, keys) = (attention.heads, KEYS.min(positions));
        let of_sample = positions.div_ceil(QUERIES);
        // All threads have tasks.
        let even = batch * of_sample / (4 * workers::threads());
        Self {
            keys: Matrix::new(heads.size, keys, dtype),
            values: Matrix::new(keys, heads.size, dtype),
            heads,
            blocks: even.clamp(1, of_sample.clamp(1, MOST_BLOCKS)),
        }
    }

    /// Queries of a task.
    fn queries(self) -> usize {
        self.blocks * QUERIES
    }

    /// The elements of each part of a workspace, in the order of [`Room`].
    fn parts(self) -> [usize; 10] {
        let Self { keys, values, heads, blocks } = self;
        let rows = keys.padded_rows(QUERIES);
        [
            QUERIES.max(KEYS) * heads.size,
            keys.elements(),
            values.elements(),
            heads.group() * blocks * keys.elements_of_left(QUERIES),
            keys.elements_beside(QUERIES).max(values.elements_beside(QUERIES)),
            rows * KEYS,
            values.elements_of_left(QUERIES),
            (self.queries() - QUERIES + rows) * heads.of_queries(),
            2 * heads.group() * self.queries(),
            self.queries() * heads.queries,
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
    /// The packed queries of the heads that read the same keys, block by block of each head.
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

/// Some blocks of queries, of all heads.
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
    sizes: Sizes,
    workspace: &'b mut [f32],
}

impl<E: StoredFloat> SimdLoops for Work<'_, '_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { mut task, sizes, workspace } = self;
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
    /// The blocks of queries, with their numbers.
    #[inline(always)]
    fn blocks(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        blocks(self.queries.clone(), QUERIES).enumerate()
    }

    /// Computes the outputs of the heads that read one head of keys.
    #[inline(always)]
    fn attend<const FUSED: bool>(&self, key: usize, sizes: Sizes, room: &mut Room<'_>) {
        let heads = sizes.heads;
        let of_block = sizes.keys.elements_of_left(QUERIES);
        let [before, after] = scale(heads, sizes.keys);
        for (index, packed) in room.packed_queries.chunks_exact_mut(sizes.blocks * of_block).enumerate() {
            let [column, ..] = heads.columns(key * heads.group() + index);
            for ((_, queries), packed) in self.blocks().zip(packed.chunks_exact_mut(of_block)) {
                self.rows.load_turned(queries.clone(), column, before, self.angles, room.loaded);
                let loaded = Numbers { elements: room.loaded, stride: heads.size };
                sizes.keys.pack_left(loaded, queries.len(), packed);
            }
        }
        let (greatest, sums) = room.states.split_at_mut(heads.group() * sizes.queries());
        greatest.fill(f32::NEG_INFINITY);
        sums.fill(0.0);
        let end = if self.attention.is_causal { self.queries.end } else { self.positions };
        for keys in blocks(0..end, KEYS) {
            self.pack(key, &keys, sizes, room);
            for index in 0..heads.group() {
                for (block, queries) in self.blocks() {
                    // Later keys are read by none of the queries.
                    if !self.attention.is_causal || keys.start < queries.end {
                        let at = [key * heads.group() + index, index, block];
                        self.block::<FUSED>(at, queries, &keys, after, sizes, room);
                    }
                }
            }
        }
        for index in 0..heads.group() {
            self.finish(key * heads.group() + index, index, sizes, room);
        }
    }

    /// Adds what a block of queries reads of a block of keys to its outputs. The block has a head, whose index among those that read the same
    /// keys is given too, and an index.
    #[inline(always)]
    fn block<const FUSED: bool>(
        &self,
        [head, index, block]: [usize; 3],
        queries: Range<usize>,
        keys: &Range<usize>,
        scale: f32,
        sizes: Sizes,
        room: &mut Room<'_>,
    ) {
        let (heads, count) = (sizes.heads, queries.len());
        let end = if self.attention.is_causal { keys.end.min(queries.end) } else { keys.end };
        let (packed_keys, keys) = (keys.len(), &(keys.start..end));
        let of_keys = sizes.keys.sized(heads.size, keys.len());
        let of_values = sizes.values.sized(packed_keys, heads.size).first_rows(keys.len());
        let of_block = sizes.keys.elements_of_left(QUERIES);
        let packed: &[f32] = &room.packed_queries[(index * sizes.blocks + block) * of_block..][..of_block];
        let scores = OutputRows { elements: &mut *room.block, stride: KEYS };
        of_keys.multiply(count, [packed, room.keys], scores, room.beside, false);
        let first = block * QUERIES;
        let (greatest, sums) = room.states.split_at_mut(heads.group() * sizes.queries());
        let states = [greatest, sums].map(|states| &mut states[index * sizes.queries() + first..][..count]);
        let outputs = &mut room.outputs[first * heads.of_queries() + head * heads.size..];
        self.weigh::<FUSED>(head, [&queries, keys], scale, room.block, states, outputs);
        let block = Numbers { elements: room.block, stride: KEYS };
        of_values.pack_left(block, count, room.packed_block);
        let outputs = OutputRows { elements: outputs, stride: heads.of_queries() };
        of_values.multiply(count, [room.packed_block, room.values], outputs, room.beside, true);
    }

    /// Packs the keys and the values of a block.
    #[inline(always)]
    fn pack(&self, key: usize, keys: &Range<usize>, sizes: Sizes, room: &mut Room<'_>) {
        let heads = sizes.heads;
        let [_, key_column, value_column] = heads.columns(key * heads.group());
        let of_keys = sizes.keys.sized(heads.size, keys.len());
        let of_values = sizes.values.sized(keys.len(), heads.size);
        self.rows.load_turned(keys.clone(), key_column, 1.0, self.angles, room.loaded);
        let stride = heads.size;
        of_keys.pack_columns(Numbers { elements: room.loaded, stride }, room.keys);
        self.rows.load(keys.clone(), value_column, 1.0, room.loaded);
        of_values.pack_rows(Numbers { elements: room.loaded, stride }, room.values);
    }

    /// Turns the scores of a block into the terms of the softmax, and scales what was summed before by the new greatest score.
    #[inline(always)]
    fn weigh<const FUSED: bool>(
        &self,
        head: usize,
        [queries, keys]: [&Range<usize>; 2],
        scale: f32,
        block: &mut [f32],
        [greatest_so_far, sums]: [&mut [f32]; 2],
        outputs: &mut [f32],
    ) {
        let heads = self.attention.heads;
        let states = greatest_so_far.iter_mut().zip(sums);
        let mut factors = [0.0; KEYS];
        for ((index, query), (most, sum)) in queries.clone().enumerate().zip(states) {
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
            let factors = self.attention.factors(at, self.positions, &mut factors[..scores.len()]);
            drop(scores, factors);
        }
    }

    /// Divides the outputs of a head by their sums.
    #[inline(always)]
    fn finish(&self, head: usize, index: usize, sizes: Sizes, room: &mut Room<'_>) {
        let heads = sizes.heads;
        let (greatest, sums) = room.states.split_at(heads.group() * sizes.queries());
        for row in 0..self.queries.len() {
            let [most, sum] = [greatest, sums].map(|states| states[index * sizes.queries() + row]);
            room.outputs[row * heads.of_queries() + head * heads.size..][..heads.size]
                .iter_mut()
                .for_each(|output| *output /= sum);
            room.log_sums[row * heads.queries + head] = most + sum.ln();
        }
    }
}

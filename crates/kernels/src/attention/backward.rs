use std::ops::Range;

use burn::tensor::Tensor;
use burn_backend::DType;
use burn_flex::FlexTensor;
use oomph_core::{Account, charge};

use super::{
    Attended, Attention, Heads,
    block::{KEYS, QUERIES, blocks, drop, live, scale},
    matrix::{Matrix, Numbers},
    rotary::rotate,
    rows::Rows,
    stripe::{Stripe, stripes},
};
use crate::{
    activations::exp,
    any_tensor::ranked,
    custom_op::{CustomOp, Workspace, split},
    flex_tensor::{blank, floats},
    panels::OutputRows,
    reduce::dot,
    simd::{SimdLoops, vectorised},
    stored_float::{StoredFloat, StoredFloats, by_dtype},
    workers,
};

/// The gradient of the input by our own kernel. A task has the heads of queries that read one head of keys, so that each element of the
/// gradient is a sum in a fixed order.
pub(super) fn own(
    attention: &Attention,
    input: Tensor<3>,
    attended: Attended,
    gradient: Tensor<3>,
) -> Tensor<3> {
    let dims @ [batch, positions, _] = input.dims();
    let dtype = input.dtype();
    let sizes = Sizes::of(attention, positions, dtype);
    let workspace = Workspace {
        shared: attention.angle_elements(positions),
        of_each: sizes.elements(),
        tasks: batch * attention.heads.keys,
        ..Workspace::default()
    };
    let Attended { output, log_sums } = attended;
    let operation = CustomOp {
        name: if attention.is_causal { "attention_causal_backward" } else { "attention_backward" },
        inputs: vec![input.into(), output.into(), gradient.into(), log_sums.into()],
        outputs: vec![(dims.to_vec(), dtype)],
        in_place: 0,
    };
    let [made] = operation.run_within(workspace, |inputs| {
        let mut made = blank(&dims, dtype);
        by_dtype!(dtype, E => write(attention, &inputs, E::storage(&mut made), dims, workspace));
        vec![made]
    });
    ranked(made)
}

fn write<E: StoredFloat>(
    attention: &Attention,
    inputs: &[FlexTensor],
    made: &mut [E],
    [_, positions, width]: [usize; 3],
    workspace: Workspace,
) {
    let heads = attention.heads;
    let angles = &attention.angles(positions);
    let log_sums = floats(&inputs[3]);
    let samples = made.chunks_exact_mut((positions * width).max(1)).enumerate();
    let tasks = samples.flat_map(|(sample, made)| {
        let rows = move |of: usize, width: usize| Rows {
            values: StoredFloats::of(&inputs[of]),
            start: sample * positions * width,
            width,
            size: heads.size,
        };
        let [output, gradient] = [1, 2].map(|of| rows(of, heads.of_queries()));
        heads.stripes(made).into_iter().enumerate().map(move |(key, made)| Task {
            attention,
            input: rows(0, width),
            output,
            gradient,
            log_sums: &log_sums[sample * positions * heads.queries..][..positions * heads.queries],
            sample,
            positions,
            key,
            angles,
            made,
        })
    });
    workers::each(tasks, workspace, |task: Task<'_, E>, workspace| vectorised(Work { task, workspace }));
}

impl Heads {
    /// The parts of a gradient that belong to each head of keys: of its queries, the keys and the values.
    fn stripes<E>(self, matrix: &mut [E]) -> Vec<[Stripe<'_, E>; 3]> {
        charge(Account::Host, || {
            let of_queries = std::iter::repeat_n(self.group() * self.size, self.keys);
            let of_keys = std::iter::repeat_n(self.size, 2 * self.keys);
            let widths: Vec<usize> = of_queries.chain(of_keys).collect();
            let mut queries = stripes(matrix, &widths);
            let mut keys = queries.split_off(self.keys);
            let values = keys.split_off(self.keys);
            let parts = queries.into_iter().zip(keys).zip(values);
            parts.map(|((queries, keys), values)| [queries, keys, values]).collect()
        })
    }
}

/// The sizes of the products of a task.
#[derive(Clone, Copy)]
struct Sizes {
    heads: Heads,
    positions: usize,
    /// Keys, or values, in columns: rows of D are multiplied by them.
    columns: Matrix,
    /// Keys in rows: rows of a block are multiplied by them.
    keys: Matrix,
    /// Queries, or gradients, in rows: columns of a block are multiplied by them.
    queries: Matrix,
}

impl Sizes {
    fn of(attention: &Attention, positions: usize, dtype: DType) -> Self {
        let heads = attention.heads;
        let [queries, keys] = [QUERIES, KEYS].map(|most| most.min(positions));
        Self {
            heads,
            positions,
            columns: Matrix::new(heads.size, keys, dtype),
            keys: Matrix::new(keys, heads.size, dtype),
            queries: Matrix::new(queries, heads.size, dtype),
        }
    }

    /// The same for these queries and keys of a block.
    fn of_block(self, queries: usize, keys: usize) -> Self {
        let size = self.heads.size;
        Self {
            columns: self.columns.sized(size, keys),
            keys: self.keys.sized(keys, size),
            queries: self.queries.sized(queries, size),
            ..self
        }
    }

    /// The elements of each part of a workspace, in the order of [`Room`].
    fn parts(self) -> [usize; 14] {
        let Self { heads, positions, columns, keys, queries } = self;
        let products = [(columns, QUERIES), (keys, QUERIES), (queries, KEYS)];
        let most = |elements: fn(Matrix, usize) -> usize| {
            products.map(|(matrix, rows)| elements(matrix, rows)).into_iter().fold(0, usize::max)
        };
        let [of_queries, of_keys] = [QUERIES, KEYS].map(|rows| columns.padded_rows(rows));
        [
            KEYS.max(QUERIES) * heads.size,
            columns.elements(),
            columns.elements(),
            keys.elements(),
            queries.elements(),
            queries.elements(),
            most(Matrix::elements_of_left),
            most(Matrix::elements_beside),
            of_queries * KEYS,
            of_queries * KEYS,
            of_keys * heads.size,
            of_keys * heads.size,
            heads.group() * positions * heads.size,
            heads.group() * positions,
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
    /// Keys in columns.
    key_columns: &'a mut [f32],
    /// Values in columns.
    value_columns: &'a mut [f32],
    /// Keys in rows.
    key_rows: &'a mut [f32],
    /// Queries in rows.
    query_rows: &'a mut [f32],
    /// Gradients of outputs in rows.
    gradient_rows: &'a mut [f32],
    /// Packed rows to multiply.
    left: &'a mut [f32],
    /// What products need beside.
    beside: &'a mut [f32],
    /// A block of the matrix.
    block: &'a mut [f32],
    /// The gradient of the block.
    slopes: &'a mut [f32],
    /// The sums of the gradients of a block's keys.
    keys: &'a mut [f32],
    /// The sums of the gradients of a block's values.
    values: &'a mut [f32],
    /// The sums of the gradients of all queries, head by head.
    queries: &'a mut [f32],
    /// For each query, head by head, the products of output and gradient: the mean gradient of its row of the matrix.
    means: &'a mut [f32],
}

/// The heads of one sample that read one head of keys.
struct Task<'a, E> {
    attention: &'a Attention,
    input: Rows<'a>,
    output: Rows<'a>,
    gradient: Rows<'a>,
    /// `[T, H]`.
    log_sums: &'a [f32],
    sample: usize,
    positions: usize,
    key: usize,
    angles: &'a [f32],
    /// The gradients of queries, keys and values.
    made: [Stripe<'a, E>; 3],
}

struct Work<'a, 'b, E> {
    task: Task<'a, E>,
    workspace: &'b mut [f32],
}

impl<E: StoredFloat> SimdLoops for Work<'_, '_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { mut task, workspace } = self;
        let sizes = Sizes::of(task.attention, task.positions, task.input.values.dtype());
        let [
            loaded,
            key_columns,
            value_columns,
            key_rows,
            query_rows,
            gradient_rows,
            left,
            beside,
            block,
            slopes,
            keys,
            values,
            queries,
            means,
        ] = split(workspace, sizes.parts());
        let mut room = Room {
            loaded,
            key_columns,
            value_columns,
            key_rows,
            query_rows,
            gradient_rows,
            left,
            beside,
            block,
            slopes,
            keys,
            values,
            queries,
            means,
        };
        task.means(&mut room);
        room.queries.fill(0.0);
        for keys in blocks(0..task.positions, KEYS) {
            task.pack_keys(&keys, sizes.of_block(QUERIES, keys.len()), &mut room);
            room.keys.fill(0.0);
            room.values.fill(0.0);
            for head in 0..sizes.heads.group() {
                let first = if task.attention.is_causal { keys.start / QUERIES * QUERIES } else { 0 };
                for queries in blocks(first..task.positions, QUERIES) {
                    task.block::<FUSED>(head, &queries, &keys, sizes, &mut room);
                }
            }
            task.write_keys(&keys, scale(sizes.heads, sizes.columns)[1], &mut room);
        }
        task.write_queries(&mut room);
    }
}

impl<E: StoredFloat> Task<'_, E> {
    /// The column of the queries of a head of the group.
    fn column(&self, head: usize) -> usize {
        (self.key * self.attention.heads.group() + head) * self.attention.heads.size
    }

    /// Computes the mean gradient of each row of the matrix.
    #[inline(always)]
    fn means(&self, room: &mut Room<'_>) {
        let size = self.attention.heads.size;
        let (outputs, gradients) = room.loaded.split_at_mut(size);
        for (head, means) in room.means.chunks_exact_mut(self.positions.max(1)).enumerate() {
            for (position, mean) in means.iter_mut().enumerate() {
                self.output.load(position..position + 1, self.column(head), 1.0, outputs);
                self.gradient.load(position..position + 1, self.column(head), 1.0, &mut gradients[..size]);
                *mean = dot(outputs, &gradients[..size]);
            }
        }
    }

    /// Packs keys and values of a block.
    #[inline(always)]
    fn pack_keys(&self, keys: &Range<usize>, sizes: Sizes, room: &mut Room<'_>) {
        let Heads { size, .. } = sizes.heads;
        let [_, key_column, value_column] = sizes.heads.columns(self.key * sizes.heads.group());
        self.input.load_turned(keys.clone(), key_column, 1.0, self.angles, room.loaded);
        let loaded = Numbers { elements: room.loaded, stride: size };
        sizes.columns.pack_columns(loaded, room.key_columns);
        sizes.keys.pack_rows(loaded, room.key_rows);
        self.input.load(keys.clone(), value_column, 1.0, room.loaded);
        let loaded = Numbers { elements: room.loaded, stride: size };
        sizes.columns.pack_columns(loaded, room.value_columns);
    }

    /// Adds the gradients of a block of a head.
    #[inline(always)]
    fn block<const FUSED: bool>(
        &self,
        head: usize,
        queries: &Range<usize>,
        keys: &Range<usize>,
        sizes: Sizes,
        room: &mut Room<'_>,
    ) {
        // Later keys are read by none of the queries.
        let end = if self.attention.is_causal { keys.end.min(queries.end) } else { keys.end };
        let (packed, keys) = (keys.len(), &(keys.start..end));
        let key_sizes = sizes.of_block(queries.len(), packed).keys.first_rows(keys.len());
        let sizes = sizes.of_block(queries.len(), keys.len());
        let (Heads { size, .. }, rows) = (sizes.heads, queries.len());
        let [before, after] = scale(sizes.heads, sizes.columns);
        let Room {
            loaded,
            key_columns,
            value_columns,
            key_rows,
            query_rows,
            gradient_rows,
            left,
            beside,
            ..
        } = room;
        let (block, slopes) = (&mut *room.block, &mut *room.slopes);
        let in_block = |elements| OutputRows { elements, stride: KEYS };
        let in_rows = |elements| OutputRows { elements, stride: size };
        self.input.load_turned(queries.clone(), self.column(head), before, self.angles, loaded);
        let numbers = Numbers { elements: loaded, stride: size };
        sizes.queries.pack_rows(numbers, query_rows);
        sizes.columns.pack_left(numbers, rows, left);
        sizes.columns.multiply(rows, [left, key_columns], in_block(&mut *block), beside, false);
        self.gradient.load(queries.clone(), self.column(head), 1.0, loaded);
        let numbers = Numbers { elements: loaded, stride: size };
        sizes.queries.pack_rows(numbers, gradient_rows);
        sizes.columns.pack_left(numbers, rows, left);
        sizes.columns.multiply(rows, [left, value_columns], in_block(&mut *slopes), beside, false);
        let means = &room.means[head * self.positions..][..self.positions];
        self.slopes::<FUSED>(head, queries, keys, after, means, [&mut *block, &mut *slopes]);
        let [block, slopes] = [&*block, &*slopes].map(|elements| Numbers { elements, stride: KEYS });
        sizes.queries.pack_left_columns(block, keys.len(), left);
        let to = &mut room.values[..keys.len() * size];
        sizes.queries.multiply(keys.len(), [left, gradient_rows], in_rows(to), beside, true);
        sizes.queries.pack_left_columns(slopes, keys.len(), left);
        let to = &mut room.keys[..keys.len() * size];
        sizes.queries.multiply(keys.len(), [left, query_rows], in_rows(to), beside, true);
        key_sizes.pack_left(slopes, rows, left);
        let to = &mut room.queries[(head * self.positions + queries.start) * size..][..rows * size];
        key_sizes.multiply(rows, [left, key_rows], in_rows(to), beside, true);
    }

    /// Turns scores into the elements of the matrix, and their gradients into those of the scores: p · (g − mean). Dropped elements
    /// pass no gradient, and the others are scaled.
    #[inline(always)]
    fn slopes<const FUSED: bool>(
        &self,
        head: usize,
        queries: &Range<usize>,
        keys: &Range<usize>,
        scale: f32,
        means: &[f32],
        [block, slopes]: [&mut [f32]; 2],
    ) {
        let heads = self.attention.heads;
        let head = self.key * heads.group() + head;
        let rows = block.chunks_exact_mut(KEYS).zip(slopes.chunks_exact_mut(KEYS));
        let mut factors = [0.0; KEYS];
        for (query, (scores, slopes)) in queries.clone().zip(rows) {
            let (scores, unread) =
                scores[..keys.len()].split_at_mut(live(self.attention.is_causal, query, keys));
            let (slopes, unread_slopes) = slopes[..keys.len()].split_at_mut(scores.len());
            unread.fill(0.0);
            unread_slopes.fill(0.0);
            let shift = self.log_sums[query * heads.queries + head];
            let mean = means[query];
            let at = [self.sample, head, query, keys.start];
            let factors = self.attention.factors(at, self.positions, &mut factors[..scores.len()]);
            drop(slopes, factors);
            for (score, slope) in scores.iter_mut().zip(slopes) {
                *score = exp::<FUSED>(*score * scale - shift);
                *slope = *score * (*slope - mean);
            }
            drop(scores, factors);
        }
    }

    /// Writes the gradients of keys, times a scale, and of values of a block.
    #[inline(always)]
    fn write_keys(&mut self, keys: &Range<usize>, scale: f32, room: &mut Room<'_>) {
        let size = self.attention.heads.size;
        let [_, of_keys, of_values] = &mut self.made;
        let rows = room.keys.chunks_exact_mut(size).zip(room.values.chunks_exact(size));
        for (position, (key, value)) in keys.clone().zip(rows) {
            if !self.angles.is_empty() {
                rotate::<true>(key, &self.angles[position * size..][..size]);
            }
            if scale != 1.0 {
                key.iter_mut().for_each(|value| *value *= scale);
            }
            put(of_keys[position], key);
            put(of_values[position], value);
        }
    }

    /// Writes the gradients of the queries.
    #[inline(always)]
    fn write_queries(&mut self, room: &mut Room<'_>) {
        let Heads { size, .. } = self.attention.heads;
        let scale = self.attention.heads.scale();
        let [of_queries, ..] = &mut self.made;
        for (at, row) in room.queries.chunks_exact_mut(size).enumerate() {
            let (head, position) = (at / self.positions, at % self.positions);
            if !self.angles.is_empty() {
                rotate::<true>(row, &self.angles[position * size..][..size]);
            }
            row.iter_mut().for_each(|value| *value *= scale);
            put(&mut of_queries[position][head * size..][..size], row);
        }
    }
}

#[inline(always)]
fn put<E: StoredFloat>(to: &mut [E], values: &[f32]) {
    to.iter_mut().zip(values).for_each(|(to, value)| *to = E::rounded(*value));
}

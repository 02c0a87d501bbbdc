//! Products by vector instructions, in 32 bits.

use std::ops::Range;

use burn_backend::{DType, Shape, TensorMetadata};
use burn_flex::FlexTensor;

use super::{Matrix, Plus, WeightSums};
use crate::{
    custom_op::{Workspace, split},
    feed_forward::Activation,
    flex_tensor::tensor,
    interleave::interleave,
    panels::{DEPTH, OutputRows, Panelled, Panels, PutTile},
    simd::{SimdLoops, vectorised},
    stored_float::{StoredFloat, StoredFloats, by_dtype, with_values},
    tile::{Start, Tile},
    uninit::{self, Appended, UninitRows, UninitSlice},
    workers,
};

/// Rows of a task, at most. So many use each panel while it is in the cache.
const ROWS: usize = 96;

/// Elements of a row that an activation makes at once, with room for two each.
const OF_ROW: usize = 2 * DEPTH;

/// A product with a matrix, whose columns are packed into panels.
#[derive(Clone, Copy)]
pub(super) struct ByPanels {
    matrix: Matrix,
    sizes: Panelled,
    /// What makes the rows that are multiplied.
    activation: Option<Activation>,
}

impl ByPanels {
    pub(super) fn new(matrix: Matrix) -> Self {
        Self { matrix, sizes: Panelled::for_many_rows(matrix.inner, matrix.columns), activation: None }
    }

    /// The product with what an activation makes of the rows.
    pub(super) fn behind(self, activation: Activation) -> Self {
        Self { activation: Some(activation), ..self }
    }

    /// The workspace of `rows` rows: the panels, and for each task products and rows in tiles.
    pub(super) fn workspace(self, rows: usize) -> Workspace {
        Workspace {
            shared: self.sizes.elements(),
            of_each: self.parts(rows.min(ROWS)).into_iter().sum(),
            tasks: rows.div_ceil(self.sizes.tile.rows),
            ..Workspace::default()
        }
    }

    /// Elements of a task's workspace: the products with a panel, and the tiles.
    fn parts(self, rows: usize) -> [usize; 2] {
        let Panelled { inner, tile, .. } = self.sizes;
        [tile.columns, inner].map(|columns| tile.padded_rows(rows) * columns)
    }

    fn packed(self, right: &FlexTensor) -> Vec<f32> {
        let Matrix { inner, columns, are_columns_along } = self.matrix;
        with_values!(StoredFloats::of(right), values => match are_columns_along {
            true => self.sizes.packed_columns(|column| &values[column * inner..][..inner]),
            false => self.sizes.packed_rows(|row| &values[row * columns..][..columns]),
        })
    }

    /// The rows of a tensor times the matrix, plus what is added.
    pub(super) fn multiply(
        self,
        left: &FlexTensor,
        right: &FlexTensor,
        plus: Plus<'_>,
        workspace: Workspace,
    ) -> FlexTensor {
        let Panelled { columns, tile, .. } = self.sizes;
        let rows = left.shape()[0];
        let packed = self.packed(right);
        let panels = &Panels::new(&packed, self.sizes);
        let (dtype, left) = (left.dtype(), StoredFloats::of(left));
        // All threads have tasks.
        let even = rows.div_ceil(4 * workers::threads());
        let of_task = even.next_multiple_of(tile.rows).min(ROWS);
        if dtype == DType::F32 {
            let (made, ()) = uninit::made(rows * columns, |made| {
                workers::each(
                    made.parts(of_task * columns).enumerate(),
                    workspace,
                    |(part, made), memory| {
                        let first = part * of_task;
                        let left = LeftRows { values: left, first, count: of_task.min(rows - first) };
                        let start = plus.start(first * columns);
                        vectorised(FloatRows {
                            product: self,
                            panels,
                            left,
                            start,
                            memory,
                            made: made.left_over(),
                        });
                    },
                );
            });
            return tensor(made, &[rows, columns]);
        }
        by_dtype!(dtype, E => {
            let (made, ()) = uninit::made::<E, _>(rows * columns, |made| {
                workers::each(made.parts(of_task * columns).enumerate(), workspace, |(part, made), memory| {
                    let first = part * of_task;
                    let count = of_task.min(rows - first);
                    let left = LeftRows { values: left, first, count };
                    let onto = plus.rows::<E>(first * columns);
                    vectorised(Rows { product: self, panels, left, row: plus.row, onto, memory, made });
                });
            });
            E::tensor(made, Shape::from([rows, columns]))
        })
    }
}

/// Some rows of the left matrix.
#[derive(Clone, Copy)]
struct LeftRows<'a> {
    /// The whole matrix.
    values: StoredFloats<'a>,
    first: usize,
    count: usize,
}

/// Computes some rows of the product, plus what is added.
struct Rows<'a, 'b, E> {
    product: ByPanels,
    panels: &'a Panels<'a>,
    left: LeftRows<'a>,
    row: Option<&'a [f32]>,
    /// Rows to add.
    onto: Option<&'a [E]>,
    memory: &'a mut [f32],
    made: UninitSlice<'b, E>,
}

impl LeftRows<'_> {
    /// Puts the rows into tiles, or what an activation makes of them.
    #[inline(always)]
    fn in_tiles(self, product: ByPanels, tiles: &mut [f32]) -> &[f32] {
        let Self { values, first, count } = self;
        let ByPanels { sizes, activation, .. } = product;
        match activation {
            Some(activation) => sizes.in_tiles(count, Activated { activation, values, first, sizes }, tiles),
            None => with_values!(values, values => {
                let row = |row: usize| &values[(first + row) * sizes.inner..][..sizes.inner];
                sizes.in_tiles(count, sizes.put_rows_of(row), tiles)
            }),
        }
    }
}

/// Computes some rows of the product in 32 bits, where they stand.
struct FloatRows<'a> {
    product: ByPanels,
    panels: &'a Panels<'a>,
    left: LeftRows<'a>,
    start: Start<'a>,
    memory: &'a mut [f32],
    made: &'a mut [f32],
}

impl SimdLoops for FloatRows<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { product, panels, left, start, memory, made } = self;
        let count = left.count;
        let [last, tiles] = split(memory, product.parts(count));
        let tiles = left.in_tiles(product, tiles);
        let output = OutputRows { elements: made, stride: product.sizes.columns };
        panels.multiply_tiles(count, tiles, output, last, start);
    }
}

impl<E: StoredFloat> SimdLoops for Rows<'_, '_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { product, panels, left, row, onto, memory, made } = self;
        let Panelled { columns, tile, .. } = product.sizes;
        let [sums, tiles] = split(memory, product.parts(left.count));
        let tiles = left.in_tiles(product, tiles);
        let mut made = made.rows(columns);
        panels.each_tile(tiles, sums, |sums, width| {
            vectorised(WriteTile { sums, stride: tile.columns, width, row, onto, made: &mut made });
        });
    }
}

/// Rows that an activation makes.
#[derive(Clone, Copy)]
struct Activated<'a> {
    activation: Activation,
    /// Its whole input.
    values: StoredFloats<'a>,
    first: usize,
    sizes: Panelled,
}

impl PutTile for Activated<'_> {
    #[inline(always)]
    fn put(&self, rows: Range<usize>, inner: Range<usize>, tile: &mut [f32]) {
        vectorised(PutActivated { of: *self, rows, inner, tile });
    }
}

/// Puts rows that an activation makes into a tile.
struct PutActivated<'a, 'b> {
    of: Activated<'a>,
    rows: Range<usize>,
    inner: Range<usize>,
    tile: &'b mut [f32],
}

impl SimdLoops for PutActivated<'_, '_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { of: Activated { activation, values, first, sizes }, rows, inner, tile } = self;
        let mut buffer = [0.0; OF_ROW * Tile::MOST_ROWS];
        let width = activation.inputs(sizes.inner);
        for (index, row) in rows.clone().enumerate() {
            let to = &mut buffer[index * OF_ROW..][..OF_ROW];
            activation.load::<FUSED>(values, (first + row) * width, sizes.inner, inner.clone(), to);
        }
        let row = |index: usize| &buffer[index * OF_ROW..][..inner.len()];
        interleave(rows.len(), row, 0..inner.len(), tile, sizes.tile.rows);
    }
}

/// Writes the next columns of some rows of a product, plus what is added.
struct WriteTile<'a, 'b, E> {
    sums: &'a [f32],
    /// Elements between the begins of two rows.
    stride: usize,
    /// Columns of the product.
    width: usize,
    row: Option<&'a [f32]>,
    /// Rows to add.
    onto: Option<&'a [E]>,
    made: &'a mut UninitRows<'b, E>,
}

impl<E: StoredFloat> SimdLoops for WriteTile<'_, '_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { sums, stride, width, row, onto, made } = self;
        made.write(sums.chunks_exact(stride).map(|row| &row[..width]), row, onto);
    }
}

/// The workspace of sums over rows: panels of inputs, and for each task gradients in tiles and their products.
pub(super) fn workspace_of_sums(sums: WeightSums) -> Workspace {
    let sizes = Panelled::for_many_rows(sums.summed(), sums.features);
    Workspace {
        shared: sizes.elements(),
        of_each: sizes.elements_beside(WeightSums::OUTPUTS),
        tasks: sums.outputs.div_ceil(WeightSums::OUTPUTS),
        ..Workspace::default()
    }
}

/// The gradients of weight and bias, of the input or of what an activation makes of it.
pub(super) fn weight_sums(
    sums: WeightSums,
    activation: Option<Activation>,
    [gradient, input]: [StoredFloats<'_>; 2],
    workspace: Workspace,
) -> [Vec<f32>; 2] {
    let WeightSums { rows, outputs, features } = sums;
    let of_each = WeightSums::OUTPUTS;
    let at_once = sums.summed().max(1);
    let sum = RowsToSum { sums, activation, gradient, input, workspace };
    let mut bias = vec![0.0; outputs];
    // Each thread zeroes what it adds to next, so that it lies in its cache.
    let (mut weight, ()) = uninit::made(outputs * features, |weight| {
        let parts = weight.parts(of_each * features).zip(bias.chunks_mut(of_each));
        sum.add(0..at_once.min(rows), parts, |(weight, bias)| [weight.zeroed(), bias]);
    });
    for first in (at_once..rows).step_by(at_once) {
        let parts = weight.chunks_mut((of_each * features).max(1)).zip(bias.chunks_mut(of_each));
        sum.add(first..(first + at_once).min(rows), parts, |(weight, bias)| [weight, bias]);
    }
    [weight, bias]
}

/// Gradients and inputs, whose products are summed over rows.
#[derive(Clone, Copy)]
struct RowsToSum<'a> {
    sums: WeightSums,
    /// What makes the second factors of the inputs.
    activation: Option<Activation>,
    gradient: StoredFloats<'a>,
    input: StoredFloats<'a>,
    workspace: Workspace,
}

impl RowsToSum<'_> {
    /// Adds the products of some rows to the sums of weight and bias, which `open` gives of each part.
    fn add<'b, P: Send>(
        self,
        rows: Range<usize>,
        parts: impl Iterator<Item = P> + Send,
        open: impl Fn(P) -> [&'b mut [f32]; 2] + Sync,
    ) {
        let WeightSums { outputs, features, .. } = self.sums;
        let sizes = Panelled::for_many_rows(rows.len(), features);
        let first = rows.start;
        let packed = match self.activation {
            Some(activation) => sizes.packed_blocks(|rows, panels| {
                vectorised(PutActivatedRows { activation, values: self.input, first, rows, sizes, panels });
            }),
            None => with_values!(self.input, input => {
                sizes.packed_rows(|row| &input[(first + row) * features..][..features])
            }),
        };
        let panels = &Panels::new(&packed, sizes);
        let from = Gradients { values: self.gradient, first, outputs };
        workers::each(parts.enumerate(), self.workspace, |(part, sums), workspace| {
            let first = part * WeightSums::OUTPUTS;
            vectorised(Outputs { from, first, panels, sums: open(sums), workspace });
        });
    }
}

/// Puts rows that an activation makes into panels.
struct PutActivatedRows<'a, 'b> {
    activation: Activation,
    /// Its whole input.
    values: StoredFloats<'a>,
    /// The row of the input that is the first one of the panels.
    first: usize,
    rows: Range<usize>,
    sizes: Panelled,
    panels: &'a mut [Appended<'b>],
}

impl SimdLoops for PutActivatedRows<'_, '_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { activation, values, first, rows, sizes: Panelled { columns, tile, .. }, panels } = self;
        let width = activation.inputs(columns);
        let mut buffer = [0.0; OF_ROW];
        for row in rows {
            for begin in (0..columns).step_by(DEPTH) {
                let some = begin..(begin + DEPTH).min(columns);
                activation.load::<FUSED>(values, (first + row) * width, columns, some.clone(), &mut buffer);
                let pieces = buffer[..some.len()].chunks(tile.columns);
                for (panel, piece) in panels[begin / tile.columns..].iter_mut().zip(pieces) {
                    panel.row(piece, tile.columns);
                }
            }
        }
    }
}

/// The gradients of some rows.
#[derive(Clone, Copy)]
struct Gradients<'a> {
    values: StoredFloats<'a>,
    /// The first of the rows.
    first: usize,
    outputs: usize,
}

/// Adds the products of gradients and inputs to the sums of some outputs.
struct Outputs<'a> {
    from: Gradients<'a>,
    /// The first of the outputs.
    first: usize,
    panels: &'a Panels<'a>,
    /// Those of the weight, and of the bias.
    sums: [&'a mut [f32]; 2],
    workspace: &'a mut [f32],
}

impl SimdLoops for Outputs<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { from, first, panels, sums: [weight, bias], workspace } = self;
        let (sizes, stride) = (panels.sizes, from.outputs);
        let (tiles, last) = with_values!(from.values, gradient => {
            // Without rows there are no columns either.
            let gradient = gradient.get(from.first * stride + first..).unwrap_or_default();
            sizes.columns_in_tiles(gradient, stride, bias, workspace)
        });
        let output = OutputRows { elements: weight, stride: sizes.columns };
        panels.multiply_tiles(bias.len(), tiles, output, last, Start::adding(true));
    }
}

use std::ops::Range;

use burn_backend::DType;

use super::factor::{Factor, FactorSizes};
use crate::{
    panels::{OutputRows, PutRows, PutTile},
    sequence::RunRows,
    stored_float::{StoredFloats, round, with_values},
};

/// The source of the products of inputs and weights, for all rows and steps.
pub(super) enum Projection<'a> {
    /// The inputs `[B, T, I]`, to be multiplied.
    Product {
        values: StoredFloats<'a>,
        weights: Factor<'a>,
        /// The format that inputs are rounded to.
        dtype: DType,
    },
    /// The tokens `[B, T]`, and the products of each.
    Known { tokens: Vec<usize>, products: &'a [f32] },
}

/// The inputs of some rows of the batch.
pub(super) struct TaskInputs<'a> {
    pub(super) projection: &'a Projection<'a>,
    pub(super) first_row: usize,
    /// Steps of the sequence.
    pub(super) all_steps: usize,
    pub(super) steps: Range<usize>,
}

impl TaskInputs<'_> {
    /// Writes the products of inputs and weights to the gates, `width` elements for each row and step: row by row, step by
    /// step.
    #[inline(always)]
    pub(super) fn project(&self, rows: usize, width: usize, gates: OutputRows<'_>, beside: &mut [f32]) {
        let rows = rows * self.steps.len();
        match self.projection {
            Projection::Product { values, weights, dtype } => {
                let put = PutInputs { inputs: self, values: *values, sizes: weights.sizes, dtype: *dtype };
                weights.multiply(rows, &put, gates, beside, false);
            }
            Projection::Known { tokens, products } => {
                let OutputRows { elements, stride } = gates;
                for (row, gates) in elements.chunks_mut(stride).take(rows).enumerate() {
                    let token = tokens[self.place(row, 1)];
                    gates[..width].copy_from_slice(&products[token * width..][..width]);
                }
            }
        }
    }

    /// The first value of a row of so many features: row by row of the batch, step by step.
    #[inline(always)]
    fn place(&self, row: usize, features: usize) -> usize {
        let steps = self.steps.len();
        let rows = RunRows { all_steps: self.all_steps, first_step: self.steps.start, steps, features };
        rows.begin(self.first_row * steps + row)
    }
}

/// The inputs, to be multiplied.
struct PutInputs<'a> {
    inputs: &'a TaskInputs<'a>,
    values: StoredFloats<'a>,
    sizes: FactorSizes,
    dtype: DType,
}

impl PutRows for &PutInputs<'_> {
    #[inline(always)]
    fn put_row(&self, row: usize, to: &mut [f32]) {
        self.values.load(self.inputs.place(row, self.sizes.inner), to);
    }
}

impl PutTile for &PutInputs<'_> {
    #[inline(always)]
    fn put(&self, rows: Range<usize>, inner: Range<usize>, tile: &mut [f32]) {
        let (sizes, features) = (self.sizes, self.sizes.inner);
        with_values!(self.values, input => {
            let of_row = |row| &input[self.inputs.place(row, features)..][..features];
            sizes.put_rows_of(of_row).put(rows, inner, tile);
        });
        // Stored 16 bits are rounded already.
        if matches!(self.values, StoredFloats::F32(_)) {
            round(tile, self.dtype);
        }
    }
}

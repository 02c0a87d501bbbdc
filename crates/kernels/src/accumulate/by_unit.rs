//! Sums over rows by the processor's matrix unit.

use std::ops::Range;

use burn_backend::DType;
use burn_flex::FlexTensor;
use oomph_bf16::{Element, Rounded, SIDE, Vectors};

use super::{AT_ONCE, Accumulate, Factor};
use crate::{
    custom_op::Workspace,
    flex_tensor::floats,
    matrix_unit::{AddRows, Summands, UnitSums, parts_of, unit_for},
    sequence::RunRows,
    simd::{SimdLoops, vectorised},
    stored_float::StoredFloats,
};

/// The sums for one second factor, or for both.
pub(super) enum ByUnit {
    One(UnitSums<1>, [Factor; 1]),
    Both(UnitSums<2>, [Factor; 2]),
}

impl ByUnit {
    /// The sums for one second factor, if the unit computes them faster than vectors.
    pub(super) fn one(sizes: Accumulate, factors: [Factor; 1]) -> Option<Self> {
        Some(Self::One(where_it_pays(sizes, factors)?, factors))
    }

    /// As [`one`](Self::one), for both.
    pub(super) fn both(sizes: Accumulate, factors: [Factor; 2]) -> Option<Self> {
        Some(Self::Both(where_it_pays(sizes, factors)?, factors))
    }

    pub(super) fn workspace(&self) -> Workspace {
        match self {
            Self::One(sums, _) => sums.workspace(),
            Self::Both(sums, _) => sums.workspace(),
        }
    }

    /// Adds to the sums of second factors, and of the rows of the first one if these are wanted. `read`: the first factor and then the
    /// second ones.
    pub(super) fn add(&self, sizes: Accumulate, sums: &mut [FlexTensor], read: &[FlexTensor]) {
        match self {
            Self::One(unit_sums, factors) => add(*unit_sums, sizes, *factors, sums, read),
            Self::Both(unit_sums, factors) => add(*unit_sums, sizes, *factors, sums, read),
        }
    }
}

fn where_it_pays<const N: usize>(sizes: Accumulate, factors: [Factor; N]) -> Option<UnitSums<N>> {
    /// Rows, at least: the unit multiplies 32 at once.
    const ROWS: usize = 64;
    let (outputs, features) = (sizes.features, factors.map(|(columns, _)| columns));
    let unit = unit_for(sizes.dtype, sizes.dtype)?;
    // Each number must be multiplied often enough to make up for packing it.
    let often = if sizes.dtype == DType::F32 { 96 } else { 24 };
    let all: usize = features.into_iter().sum();
    if sizes.count < ROWS || outputs * all < often * (outputs + all) {
        return None;
    }
    let inner = sizes.count.min(AT_ONCE);
    Some(UnitSums { unit, outputs, features, inner, parts: parts_of(sizes.dtype) })
}

fn add<const N: usize>(
    unit_sums: UnitSums<N>,
    sizes: Accumulate,
    factors: [Factor; N],
    sums: &mut [FlexTensor],
    read: &[FlexTensor],
) {
    let (products, rows) = sums.split_at_mut(N);
    let mut products = products.iter_mut().map(|sum| sum.storage_mut::<f32>());
    let products = std::array::from_fn(|_| products.next().unwrap_or_default());
    let rows = rows.first_mut().map(|sum| sum.storage_mut::<f32>()).unwrap_or_default();
    let left = floats(&read[0]);
    let rights = std::array::from_fn(|index| {
        let right = &read[1 + index];
        Right { values: StoredFloats::of(right), rows: sizes.in_sequence(factors[index], right) }
    });
    match sizes.dtype {
        DType::BF16 => {
            unit_sums.add_to(&RowsToSum { sizes, left, rights, of: Rounded::all }, products, rows);
        }
        _ => unit_sums.add_to(&RowsToSum::<f32, N> { sizes, left, rights, of: |all| all }, products, rows),
    }
}

/// Both factors, by blocks of rows.
struct RowsToSum<'a, E, const N: usize> {
    sizes: Accumulate,
    left: &'a [f32],
    rights: [Right<'a>; N],
    /// Numbers as the unit takes them.
    of: fn(&[f32]) -> &[E],
}

/// A second factor: some steps of a sequence.
struct Right<'a> {
    values: StoredFloats<'a>,
    rows: RunRows,
}

impl Right<'_> {
    /// Gives some columns of some rows. They are not copied if they have 32 bits and the rows follow each other.
    fn columns(&self, rows: Range<usize>, columns: Range<usize>, take: impl FnOnce(&[f32], usize)) {
        if let StoredFloats::F32(values) = self.values
            && self.rows.steps == self.rows.all_steps
        {
            return take(&values[self.rows.begin(rows.start) + columns.start..], self.rows.features);
        }
        let mut copied = [[0.0; SIDE]; AT_ONCE];
        vectorised(CopyColumns { right: self, rows, columns, to: &mut copied });
        take(copied.as_flattened(), SIDE);
    }
}

/// Copies some columns of some rows.
struct CopyColumns<'a> {
    right: &'a Right<'a>,
    rows: Range<usize>,
    columns: Range<usize>,
    to: &'a mut [[f32; SIDE]; AT_ONCE],
}

impl SimdLoops for CopyColumns<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { right, rows, columns, to } = self;
        for (row, to) in rows.zip(to) {
            right.values.load(right.rows.begin(row) + columns.start, &mut to[..columns.len()]);
        }
    }
}

impl<E, const N: usize> RowsToSum<'_, E, N> {
    fn rows(&self, block: usize) -> Range<usize> {
        block * AT_ONCE..self.sizes.count.min((block + 1) * AT_ONCE)
    }

    /// The first factor, from an output of the first row of a block on.
    fn left(&self, block: usize, output: usize) -> &[f32] {
        let (rows, outputs) = (self.rows(block), self.sizes.features);
        &self.left[rows.start * outputs + output..rows.end * outputs]
    }
}

impl<E: Element, const N: usize> Summands<E> for RowsToSum<'_, E, N> {
    fn blocks(&self) -> usize {
        self.sizes.count.div_ceil(AT_ONCE)
    }

    fn inner(&self, block: usize) -> usize {
        self.rows(block).len()
    }

    fn outputs(&self, block: usize, outputs: Range<usize>, pack: impl FnOnce(Vectors<'_, E>)) {
        let left = (self.of)(self.left(block, outputs.start));
        pack(Vectors::across(left, self.sizes.features, outputs.len(), self.inner(block)));
    }

    fn features(
        &self,
        block: usize,
        matrix: usize,
        features: Range<usize>,
        pack: impl FnOnce(Vectors<'_, E>),
    ) {
        let (rows, count) = (self.rows(block), features.len());
        let inner = rows.len();
        self.rights[matrix].columns(rows, features, |values, stride| {
            pack(Vectors::across((self.of)(values), stride, count, inner));
        });
    }

    fn add_bias(&self, block: usize, output: usize, bias: &mut [f32]) {
        if !bias.is_empty() {
            let rows = self.left(block, output);
            vectorised(AddRows { rows, outputs: self.sizes.features, bias });
        }
    }
}

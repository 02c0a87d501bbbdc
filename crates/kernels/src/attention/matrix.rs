//! Products of the matrices of a block: by vectors, or, in bf16, by the processor's matrix unit.

use burn_backend::DType;
use oomph_bf16::{FEW_ROWS, Line, MatrixUnit, Rounded, SIDE, Vectors, lines};

use crate::{
    matrix_unit::{elements_around_lines, unit_for},
    panels::{CopyRows, OutputRows, Panelled, Panels},
    simd::vectorised,
    tile::Start,
};

/// Rows of numbers, each of which begins `stride` numbers behind the one before.
#[derive(Clone, Copy)]
pub(super) struct Numbers<'a> {
    pub(super) elements: &'a [f32],
    pub(super) stride: usize,
}

impl<'a> Numbers<'a> {
    fn row(self, index: usize, length: usize) -> &'a [f32] {
        &self.elements[index * self.stride..][..length]
    }

    /// `count` rows, of `inner` numbers each, to round.
    fn along(self, count: usize, inner: usize) -> Vectors<'a, Rounded> {
        Vectors::along(Rounded::all(self.elements), self.stride, count).some_of(0..count, 0..inner)
    }

    /// `count` columns, of `inner` numbers each, to round.
    fn across(self, count: usize, inner: usize) -> Vectors<'a, Rounded> {
        Vectors::across(Rounded::all(self.elements), self.stride, count, inner)
    }
}

/// The sizes of a right matrix, and what multiplies rows by it.
///
/// The unit multiplies numbers of 32 bits that are rounded to bf16 as they are packed: weights of the values too, as PyTorch does.
#[derive(Clone, Copy)]
pub(super) struct Matrix {
    /// The rows that are multiplied: the first ones.
    inner: usize,
    /// The rows that are packed.
    packed: usize,
    columns: usize,
    panelled: Panelled,
    unit: Option<MatrixUnit>,
}

impl Matrix {
    /// A matrix that inputs of a format are multiplied by.
    pub(super) fn new(inner: usize, columns: usize, dtype: DType) -> Self {
        let unit = if dtype == DType::BF16 { unit_for(dtype, dtype) } else { None };
        Self { inner, packed: inner, columns, panelled: Panelled::new(inner, columns), unit }
    }

    /// A matrix of other sizes, multiplied by the same means.
    pub(super) fn sized(self, inner: usize, columns: usize) -> Self {
        Self { inner, packed: inner, columns, panelled: Panelled { inner, columns, ..self.panelled }, ..self }
    }

    /// Only the first rows of the same matrix.
    pub(super) fn first_rows(self, inner: usize) -> Self {
        Self { inner, ..self }
    }

    /// Whether numbers are rounded to 16 bits before they are multiplied.
    pub(super) fn rounds(self) -> bool {
        self.unit.is_some()
    }

    /// Rows of results that are written for so many.
    pub(super) fn padded_rows(self, rows: usize) -> usize {
        self.panelled.tile.padded_rows(rows)
    }

    /// Elements of the packed matrix.
    pub(super) fn elements(self) -> usize {
        match self.unit {
            Some(_) => elements_around_lines(self.columns, self.packed, 1),
            None => self.panelled.elements(),
        }
    }

    /// Elements of so many packed rows to multiply.
    pub(super) fn elements_of_left(self, rows: usize) -> usize {
        match self.unit {
            Some(_) => elements_around_lines(rows, self.inner, 1),
            None => self.padded_rows(rows) * self.inner,
        }
    }

    /// Elements of a workspace for the product of so many rows.
    pub(super) fn elements_beside(self, rows: usize) -> usize {
        match self.unit {
            Some(_) => SIDE * self.columns.next_multiple_of(SIDE),
            None => self.padded_rows(rows) * self.panelled.tile.columns,
        }
    }

    /// Packs the matrix, whose rows these are.
    #[inline(always)]
    pub(super) fn pack_rows(self, rows: Numbers<'_>, memory: &mut [f32]) {
        match self.unit {
            Some(unit) => {
                unit.pack_right(rows.across(self.columns, self.packed), self.strips(memory));
            }
            None => self.panelled.pack_rows(|row| rows.row(row, self.columns), memory),
        }
    }

    /// Packs the matrix, whose columns these are.
    #[inline(always)]
    pub(super) fn pack_columns(self, columns: Numbers<'_>, memory: &mut [f32]) {
        match self.unit {
            Some(unit) => {
                unit.pack_right(columns.along(self.columns, self.packed), self.strips(memory));
            }
            None => self.panelled.pack_columns(|column| columns.row(column, self.packed), memory),
        }
    }

    /// The memory of the packed matrix as strips.
    fn strips(self, memory: &mut [f32]) -> &mut [Line] {
        &mut Line::within(memory)[..lines(self.columns, self.packed, 1)]
    }

    /// Packs `count` rows to multiply.
    #[inline(always)]
    pub(super) fn pack_left(self, rows: Numbers<'_>, count: usize, memory: &mut [f32]) {
        match self.unit {
            Some(unit) => {
                let to = &mut Line::within(memory)[..lines(count, self.inner, 1)];
                unit.pack_left(rows.along(count, self.inner), to);
            }
            None => {
                let put = self.panelled.put_rows_of(|row| rows.row(row, self.inner));
                _ = Panelled { inner: self.inner, ..self.panelled }.in_tiles(count, put, memory);
            }
        }
    }

    /// Packs `count` columns to multiply, each as a row.
    #[inline(always)]
    pub(super) fn pack_left_columns(self, columns: Numbers<'_>, count: usize, memory: &mut [f32]) {
        match self.unit {
            Some(unit) => {
                let to = &mut Line::within(memory)[..lines(count, self.inner, 1)];
                unit.pack_left(columns.across(count, self.inner), to);
            }
            None => {
                let put = self.panelled.put_columns_of(columns.elements, columns.stride);
                _ = Panelled { inner: self.inner, ..self.panelled }.in_tiles(count, put, memory);
            }
        }
    }

    /// Multiplies `count` packed rows by the packed matrix. Writes the product to the rows of `output`, or adds it if `add`. `beside` is a
    /// workspace of [`elements_beside`](Self::elements_beside).
    #[inline(always)]
    pub(super) fn multiply(
        self,
        count: usize,
        [left, right]: [&[f32]; 2],
        output: OutputRows<'_>,
        beside: &mut [f32],
        add: bool,
    ) {
        match self.unit {
            Some(unit) => self.multiply_strips(unit, count, [left, right], output, beside, add),
            None => {
                let tiles = &left[..self.padded_rows(count) * self.inner];
                let panels = Panels::new(right, self.panelled).first_rows(self.inner);
                panels.multiply_tiles(count, tiles, output, beside, Start::adding(add));
            }
        }
    }

    fn multiply_strips(
        self,
        unit: MatrixUnit,
        count: usize,
        [left, right]: [&[f32]; 2],
        output: OutputRows<'_>,
        beside: &mut [f32],
        add: bool,
    ) {
        let [of_left, of_right] = [self.inner, self.packed].map(|inner| lines(1, inner, 1));
        let left = &Line::read_within(left)[..lines(count, self.inner, 1)];
        let right = &Line::read_within(right)[..lines(self.columns, self.packed, 1)];
        // Strips of the same inner indices are multiplied at once.
        let at_once = if of_left == of_right { right.len() } else { of_right };
        let multiply = |left: &[Line], to: &mut [f32], rows: [usize; 2]| {
            for (index, right) in right.chunks_exact(at_once).enumerate() {
                let right = if of_left == of_right { right } else { &right[..of_left] };
                unit.multiply_rows::<Rounded>([left, right], self.inner, &mut to[index * SIDE..], rows, add);
            }
        };
        for (left, first) in left.chunks_exact(of_left).zip((0..count).step_by(SIDE)) {
            let (rows, columns) = (SIDE.min(count - first), self.columns);
            let padded = if rows <= FEW_ROWS { FEW_ROWS } else { SIDE };
            let elements = &mut output.elements[first * output.stride..];
            if rows == padded && columns.is_multiple_of(SIDE) {
                multiply(left, elements, [padded, output.stride]);
                continue;
            }
            // Whole tiles would be written beyond the rows.
            let width = columns.next_multiple_of(SIDE);
            let mut place = OutputRows { elements, stride: output.stride };
            let mut products = OutputRows { elements: &mut *beside, stride: width };
            if add {
                vectorised(CopyRows { from: &place, to: &mut products, count: rows, columns });
            }
            multiply(left, &mut *products.elements, [padded, width]);
            vectorised(CopyRows { from: &products, to: &mut place, count: rows, columns });
        }
    }
}

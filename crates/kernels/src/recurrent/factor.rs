//! A matrix that the rows of each time step are multiplied by: in panels for vectors, or in strips for the processor's matrix unit.

use std::ops::Range;

use burn_backend::DType;
use burn_flex::FlexTensor;
use oomph_bf16::{Element, FEW_ROWS, Line, MatrixUnit, Rounded, SIDE, Vectors, lines};

use crate::{
    custom_op::split,
    flex_tensor::vector,
    matrix_unit::{columns_of, elements_around_lines, elements_of_lines, parts_of, unit_for},
    panels::{CopyRows, OutputRows, Panelled, Panels, PutRows, RowsOf},
    simd::{SimdLoops, vectorised},
    stored_float::StoredFloats,
    uninit,
};

/// Strips of columns that are multiplied at once: their products stay in the first-level cache.
const STRIPS: usize = 8;

/// The sizes of a matrix, and how rows are multiplied by it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FactorSizes {
    pub(crate) inner: usize,
    pub(crate) columns: usize,
    panelled: Panelled,
    unit: Option<MatrixUnit>,
    /// The format of products.
    pub(crate) dtype: DType,
}

impl FactorSizes {
    /// A matrix that `rows` rows are multiplied by at once.
    pub(crate) fn new([inner, columns]: [usize; 2], dtype: DType, rows: usize) -> Self {
        let unit = unit_for(dtype, dtype).filter(|unit| is_worth_it(*unit, [inner, columns], dtype, rows));
        Self { inner, columns, panelled: Panelled::new(inner, columns), unit, dtype }
    }

    /// Multiples of these rows are multiplied without waste.
    pub(crate) fn rows_of_tile(self) -> usize {
        if self.unit.is_some() { FEW_ROWS } else { self.panelled.tile.rows }
    }

    /// Elements of 32 bits that the packed matrix takes.
    pub(crate) fn elements(self) -> usize {
        match self.unit {
            Some(_) => elements_around_lines(self.columns, self.inner, parts_of(self.dtype)),
            None => self.panelled.elements(),
        }
    }

    /// Elements of the workspace to multiply `rows` rows.
    pub(crate) fn elements_beside(self, rows: usize) -> usize {
        match self.unit {
            Some(_) => self.parts_beside(rows).into_iter().sum(),
            None => self.panelled.elements_beside(rows),
        }
    }

    /// For the unit: elements of the rows of a strip, of these packed, and of their products.
    fn parts_beside(self, rows: usize) -> [usize; 3] {
        let rows = padded(rows.min(SIDE));
        let strips = self.columns.div_ceil(SIDE).min(STRIPS);
        [
            rows * self.inner.next_multiple_of(SIDE),
            elements_around_lines(rows, self.inner, parts_of(self.dtype)),
            rows * strips * SIDE,
        ]
    }

    /// Gives rows to multiply, of which `row` gives each.
    #[inline(always)]
    pub(crate) fn put_rows_of<F>(self, row: F) -> RowsOf<F> {
        self.panelled.put_rows_of(row)
    }

    /// Whether packing rounds a matrix of 32 bits to the format of products. 16 bits are only a storage format for vectors: they need a
    /// matrix of 32 bits that is rounded already.
    pub(crate) fn rounds(self) -> bool {
        self.unit.is_some() && self.dtype == DType::BF16
    }

    /// Packs a matrix in row-major order, or one whose columns memory holds as rows. It has 32 bits; if it is [rounded](Self::rounds), it may
    /// have 16.
    pub(crate) fn packed(self, matrix: &FlexTensor, are_columns_along: bool) -> FlexTensor {
        match (self.unit, StoredFloats::of(matrix)) {
            (Some(unit), StoredFloats::Bf16(matrix)) => self.in_strips(unit, matrix, are_columns_along),
            (Some(unit), _) if self.rounds() => {
                self.in_strips(unit, Rounded::all(matrix.storage()), are_columns_along)
            }
            (Some(unit), _) => self.in_strips::<f32>(unit, matrix.storage(), are_columns_along),
            (None, _) if are_columns_along => self.panelled.of_columns(matrix.storage()),
            (None, _) => self.panelled.of_rows(matrix.storage()),
        }
    }

    fn in_strips<E: Element>(self, unit: MatrixUnit, matrix: &[E], are_columns_along: bool) -> FlexTensor {
        let Self { inner, columns, .. } = self;
        let all = columns_of(matrix, [inner, columns], are_columns_along);
        let [of_all, of_strip] = [columns, 1].map(|count| lines(count, inner, E::PARTS));
        vector(uninit::lines_anew(self.elements(), of_all, of_strip, |index, strip| {
            let first = index * SIDE;
            unit.pack_right(all.some_of(first..columns.min(first + SIDE), 0..inner), strip);
        }))
    }
}

/// Whether the unit is faster than vectors.
fn is_worth_it(unit: MatrixUnit, [inner, columns]: [usize; 2], dtype: DType, rows: usize) -> bool {
    /// Bytes of a matrix that stays in the second-level cache from one step to the next.
    const NEAR: usize = 1 << 20;
    /// Rows that make up for reading it from a more distant one.
    const MANY: usize = 64;
    // The unit multiplies 16 rows in the time of so many by vectors.
    let fewest = match (dtype, unit.has_tiles()) {
        (DType::F32, _) => 12,
        (_, true) => 3,
        (_, false) => 8,
    };
    // A number of 32 bits takes 6 bytes in parts: from a distant cache that is slower than the products by vectors.
    let bytes = elements_of_lines(columns, inner, parts_of(dtype)) * size_of::<f32>();
    let is_near = dtype != DType::F32 || bytes <= NEAR || rows >= MANY;
    rows >= fewest && is_near && inner > 0 && columns > 0
}

/// Rows of a strip that the unit multiplies.
fn padded(rows: usize) -> usize {
    if rows <= FEW_ROWS { FEW_ROWS } else { SIDE }
}

/// A packed matrix.
pub(crate) struct Factor<'a> {
    pub(crate) sizes: FactorSizes,
    elements: Elements<'a>,
}

enum Elements<'a> {
    Panels(Panels<'a>),
    Strips(MatrixUnit, &'a [Line]),
}

impl<'a> Factor<'a> {
    /// A matrix that [`FactorSizes::packed`] packed.
    pub(crate) fn new(elements: &'a [f32], sizes: FactorSizes) -> Self {
        let elements = match sizes.unit {
            Some(unit) => {
                let all = lines(sizes.columns, sizes.inner, parts_of(sizes.dtype));
                Elements::Strips(unit, &Line::read_within(elements)[..all])
            }
            None => Elements::Panels(Panels::new(elements, sizes.panelled)),
        };
        Self { sizes, elements }
    }

    /// Multiplies `count` rows by the matrix. Writes the products to the rows of `output`, or adds them if `add`. `beside` is a workspace
    /// of [`FactorSizes::elements_beside`].
    #[inline(always)]
    pub(crate) fn multiply(
        &self,
        count: usize,
        put: impl PutRows,
        output: OutputRows<'_>,
        beside: &mut [f32],
        add: bool,
    ) {
        match &self.elements {
            Elements::Panels(panels) => panels.multiply(count, put, output, beside, add),
            Elements::Strips(unit, strips) => {
                let product = StripProduct { unit: *unit, sizes: self.sizes, strips, count, add };
                product.write(&put, output, beside);
            }
        }
    }
}

/// A product of rows by strips.
#[derive(Clone, Copy)]
struct StripProduct<'a> {
    unit: MatrixUnit,
    sizes: FactorSizes,
    strips: &'a [Line],
    /// The number of rows.
    count: usize,
    add: bool,
}

impl StripProduct<'_> {
    /// Not inlined: the loops around would be too long for the compiler to make vectors of them.
    #[inline(never)]
    fn write(self, rows: &impl PutRows, output: OutputRows<'_>, beside: &mut [f32]) {
        if self.sizes.dtype == DType::BF16 {
            self.write_as(rows, Rounded::all, output, beside);
        } else {
            self.write_as(rows, |rows| rows, output, beside);
        }
    }

    fn write_as<E: Element>(
        self,
        rows: &impl PutRows,
        of: fn(&[f32]) -> &[E],
        output: OutputRows<'_>,
        beside: &mut [f32],
    ) {
        let Self { unit, sizes, strips, count, add } = self;
        let FactorSizes { inner, columns, .. } = sizes;
        let [in_order, left, products] = split(beside, sizes.parts_beside(count));
        let of_strip = lines(1, inner, E::PARTS);
        let left = &mut Line::within(left)[..of_strip];
        for first in (0..count).step_by(SIDE) {
            let some = first..count.min(first + SIDE);
            let (padded, width) = (padded(some.len()), inner.next_multiple_of(SIDE));
            vectorised(InOrder { rows, some: some.clone(), inner, width, to: &mut *in_order });
            unit.pack_left(Vectors::along(of(in_order), width, padded), left);
            for (index, strips) in strips.chunks(STRIPS * of_strip).enumerate() {
                let first_column = index * STRIPS * SIDE;
                let of_columns = (columns - first_column).min(STRIPS * SIDE);
                let elements = &mut output.elements[some.start * output.stride + first_column..];
                let factors: [&[Line]; 2] = [left, strips];
                if some.len() == padded && of_columns.is_multiple_of(SIDE) {
                    unit.multiply_rows::<E>(factors, inner, elements, [padded, output.stride], add);
                    continue;
                }
                // Whole tiles would be written beyond the rows.
                let width = strips.len() / of_strip * SIDE;
                let mut rows = OutputRows { elements, stride: output.stride };
                let mut products = OutputRows { elements: &mut *products, stride: width };
                let (count, columns) = (some.len(), of_columns);
                if add {
                    vectorised(CopyRows { from: &rows, to: &mut products, count, columns });
                }
                unit.multiply_rows::<E>(factors, inner, &mut *products.elements, [padded, width], add);
                vectorised(CopyRows { from: &products, to: &mut rows, count, columns });
            }
        }
    }
}

/// Puts rows one behind the other, with zeros behind each and behind the last one.
struct InOrder<'a, R> {
    rows: &'a R,
    some: Range<usize>,
    inner: usize,
    /// Elements from one row to the next.
    width: usize,
    to: &'a mut [f32],
}

impl<R: PutRows> SimdLoops for InOrder<'_, R> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { rows, some, inner, width, to } = self;
        let count = some.len();
        for (row, to) in some.zip(to.chunks_exact_mut(width)) {
            let (to, zeros) = to.split_at_mut(inner);
            rows.put_row(row, to);
            zeros.fill(0.0);
        }
        to[count * width..padded(count) * width].fill(0.0);
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::bf16;
    use burn_flex::FlexTensor;

    use super::*;
    use crate::stored_float::StoredFloat;

    struct Product<'a> {
        factor: &'a Factor<'a>,
        left: &'a [f32],
        rows: usize,
        add: bool,
        output: &'a mut [f32],
        stride: usize,
        beside: &'a mut [f32],
    }

    impl SimdLoops for Product<'_> {
        #[inline(always)]
        fn run<const FUSED: bool>(self) {
            let Self { factor, left, rows, add, output, stride, beside } = self;
            let inner = factor.sizes.inner;
            let put = factor.sizes.put_rows_of(|row| &left[row * inner..][..inner]);
            factor.multiply(rows, put, OutputRows { elements: output, stride }, beside, add);
        }
    }

    fn values(count: usize, salt: usize) -> Vec<f32> {
        (0..count).map(|at| ((at * 7919 + salt) % 1009) as f32 / 504.0 - 1.0).collect()
    }

    fn matrix<E: StoredFloat>(values: &[f32], sizes: [usize; 2]) -> FlexTensor {
        E::tensor(values.iter().map(|value| E::rounded(*value)).collect(), sizes.into())
    }

    /// Compares products with those of 64 bits. Where the processor has no matrix unit, the products are those by panels.
    fn products_are_those_of_64_bits(dtype: DType, round: fn(f32) -> f32) {
        for [rows, inner, columns] in
            [[3, 5, 17], [16, 64, 64], [17, 100, 96], [1, 33, 40], [40, 33, 300], [70, 260, 513]]
        {
            let (left, right) = (values(rows * inner, 1), values(inner * columns, 2));
            let transposed: Vec<f32> =
                (0..inner * columns).map(|at| right[at % inner * columns + at / inner]).collect();
            let sizes = FactorSizes::new([inner, columns], dtype, rows);
            let packed = |values: &[f32], of: [usize; 2], are_columns_along| {
                let rounded: Vec<f32> = values.iter().map(|value| round(*value)).collect();
                let packed = |matrix| sizes.packed(&matrix, are_columns_along);
                if !sizes.rounds() {
                    return packed(matrix::<f32>(&rounded, of));
                }
                let (narrow, wide) =
                    (packed(matrix::<bf16>(&rounded, of)), packed(matrix::<f32>(values, of)));
                let [found, expected] = [&wide, &narrow]
                    .map(|packed| Line::read_within(packed.storage())[..lines(columns, inner, 1)].to_vec());
                assert!(found == expected, "packing rounds as the format does");
                narrow
            };
            let both = [packed(&right, [inner, columns], false), packed(&transposed, [columns, inner], true)];
            // The product must not write the elements between two rows of the output.
            let stride = columns + 3;
            for (elements, add) in both.iter().flat_map(|elements| [(elements, true), (elements, false)]) {
                let factor = &Factor::new(elements.storage(), sizes);
                let mut output = vec![0.5; rows * stride - 3];
                let mut beside = vec![f32::NAN; sizes.elements_beside(rows)];
                let (made, beside) = (&mut output, &mut beside);
                vectorised(Product { factor, left: &left, rows, add, output: made, stride, beside });
                for (at, found) in output.iter().enumerate() {
                    let (row, column) = (at / stride, at % stride);
                    let products = (0..inner).map(|k| {
                        // Vectors multiply rows as they are.
                        let left = left[row * inner + k];
                        let left = if sizes.unit.is_some() { round(left) } else { left };
                        f64::from(left) * f64::from(round(right[k * columns + column.min(columns - 1)]))
                    });
                    let (sum, size) = products
                        .fold((0.0, 1.0), |(sum, size), product| (sum + product, size + product.abs()));
                    let expected = match column < columns {
                        true => sum + if add { 0.5 } else { 0.0 },
                        false => 0.5,
                    };
                    let error = (f64::from(*found) - expected).abs();
                    assert!(
                        error <= 3e-7 * size,
                        "{rows} × {inner} × {columns} at {at}, add: {add}: {found} for {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn products_are_those_of_64_bits_in_either_format() {
        products_are_those_of_64_bits(DType::F32, |value| value);
        products_are_those_of_64_bits(DType::BF16, |value| bf16::from_f32(value).to_f32());
    }
}

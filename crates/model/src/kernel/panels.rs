//! Products with a matrix that lies in panels: [`LANES`] columns side by side, one inner index after the other.
//!
//! For products of few rows, one after the other, with one matrix: it is put into panels once, and the products run
//! within kernels of our own, without a tensor each.

use burn_flex::FlexTensor;

use super::{rows::vector, vector::multiply_add};

/// Columns of a panel. Four rows of sums are as many registers as hide the time of one instruction, with 16 registers
/// of 8 floats and with 32 of 16.
const LANES: usize = 16;

/// Rows of a slice, `stride` apart, the first at `start`.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) start: usize,
    pub(super) stride: usize,
    pub(super) width: usize,
}

impl Rows {
    /// Rows that lie one behind the other.
    pub(super) fn dense(width: usize) -> Self {
        Self { start: 0, stride: width, width }
    }

    fn first(self, row: usize) -> usize {
        self.start + row * self.stride
    }
}

/// The elements that panels of a matrix of `inner` rows and `columns` take.
pub(super) fn panel_elements(inner: usize, columns: usize) -> usize {
    inner * columns.next_multiple_of(LANES)
}

/// The panels of `inner × columns`, of which `element` gives each.
pub(super) fn panels(inner: usize, columns: usize, element: impl Fn(usize, usize) -> f32) -> FlexTensor {
    let mut panels = vec![0.0; panel_elements(inner, columns)];
    for (panel, elements) in panels.chunks_exact_mut((inner * LANES).max(1)).enumerate() {
        let first = panel * LANES;
        for (inner, elements) in elements.chunks_exact_mut(LANES).enumerate() {
            let columns = first..(first + LANES).min(columns);
            elements.iter_mut().zip(columns).for_each(|(to, column)| *to = element(inner, column));
        }
    }
    vector(panels)
}

/// `count` rows of `left` times the matrix in `panels`, added to as many rows of `output`.
///
/// What a row becomes does not depend on how many there are.
#[inline(always)]
pub(super) fn add_product<const FUSED: bool>(
    count: usize,
    (left, left_rows): (&[f32], Rows),
    panels: &[f32],
    (output, output_rows): (&mut [f32], Rows),
) {
    let panels = panels.chunks_exact(left_rows.width * LANES);
    for (panel, column) in panels.zip((0..output_rows.width).step_by(LANES)) {
        let mut add = |row: usize, sums: &[[f32; LANES]]| {
            for (index, sums) in sums.iter().enumerate() {
                let start = output_rows.first(row + index);
                let outputs = &mut output[start + column..start + output_rows.width];
                outputs.iter_mut().zip(sums).for_each(|(output, sum)| *output += sum);
            }
        };
        let mut row = 0;
        while row + 4 <= count {
            add(row, &block::<4, FUSED>(left, left_rows, row, panel));
            row += 4;
        }
        if row + 2 <= count {
            add(row, &block::<2, FUSED>(left, left_rows, row, panel));
            row += 2;
        }
        if row < count {
            add(row, &block::<1, FUSED>(left, left_rows, row, panel));
        }
    }
}

/// `R` rows times one panel. The sums stay in registers.
#[inline(always)]
fn block<const R: usize, const FUSED: bool>(
    left: &[f32],
    rows: Rows,
    first: usize,
    panel: &[f32],
) -> [[f32; LANES]; R] {
    let width = rows.width;
    let left: [&[f32]; R] = std::array::from_fn(|row| &left[rows.first(first + row)..][..width]);
    let panel = &panel.as_chunks::<LANES>().0[..width];
    let mut sums = [[0.0; LANES]; R];
    for inner in 0..width {
        for (sums, left) in sums.iter_mut().zip(&left) {
            for (sum, element) in sums.iter_mut().zip(&panel[inner]) {
                *sum = multiply_add::<FUSED>(left[inner], *element, *sum);
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::vector::{Loops, vectorised};

    struct Product<'a> {
        left: &'a [f32],
        panels: &'a [f32],
        output: &'a mut [f32],
        inner: usize,
        columns: usize,
    }

    impl Loops for Product<'_> {
        fn run<const FUSED: bool>(self) {
            let Self { left, panels, output, inner, columns } = self;
            let rows = left.len() / inner;
            add_product::<FUSED>(rows, (left, Rows::dense(inner)), panels, (output, Rows::dense(columns)));
        }
    }

    #[test]
    fn a_product_by_panels_is_the_sum_of_products() {
        for (rows, inner, columns) in [(1, 1, 1), (4, 3, 16), (7, 20, 28), (3, 5, 17), (8, 16, 48)] {
            let value = |index: usize| (index * 37 % 11) as f32 - 5.0;
            let matrix = |inner: usize, column: usize| value(inner * columns + column + 3);
            let left: Vec<f32> = (0..rows * inner).map(value).collect();
            let panels = panels(inner, columns, matrix);
            let mut output = vec![1.0; rows * columns];
            vectorised(Product {
                left: &left,
                panels: panels.storage(),
                output: &mut output,
                inner,
                columns,
            });
            for (at, found) in output.iter().enumerate() {
                let (row, column) = (at / columns, at % columns);
                let products = (0..inner).map(|k| left[row * inner + k] * matrix(k, column));
                // Small whole numbers are exact in any order.
                assert_eq!(*found, 1.0 + products.sum::<f32>(), "{rows} × {inner} × {columns} at {at}");
            }
        }
    }
}

//! Products by panels, beside sums of products.

use super::*;
use crate::{custom_op::split, simd::vectorised};

struct Product<'a> {
    panels: &'a Panels<'a>,
    left: &'a [f32],
    rows: usize,
    start: Start<'a>,
    output: &'a mut [f32],
    stride: usize,
    beside: &'a mut [f32],
}

impl SimdLoops for Product<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { panels, left, rows, start, output, stride, beside } = self;
        let Panelled { inner, tile, .. } = panels.sizes;
        let [tiles, last] =
            split(beside, [inner, tile.columns].map(|columns| tile.padded_rows(rows) * columns));
        let put = panels.sizes.put_rows_of(|row| &left[row * inner..][..inner]);
        let tiles = panels.sizes.in_tiles(rows, put, tiles);
        panels.multiply_tiles(rows, tiles, OutputRows { elements: output, stride }, last, start);
    }
}

#[test]
fn a_product_by_panels_is_the_sum_of_products() {
    for (rows, inner, columns) in
        [(1, 1, 1), (4, 3, 16), (7, 20, 28), (3, 5, 17), (8, 16, 48), (17, 260, 64), (9, 600, 33), (2, 0, 5)]
    {
        let value = |index: usize| (index * 37 % 11) as f32 - 5.0;
        let matrix: Vec<f32> = (3..inner * columns + 3).map(value).collect();
        let transposed: Vec<f32> =
            (0..inner * columns).map(|at| matrix[at % inner * columns + at / inner]).collect();
        let left: Vec<f32> = (0..rows * inner).map(value).collect();
        // The product must not write the elements between two rows of the output.
        let stride = columns + 2;
        let (row, others): (Vec<f32>, Vec<f32>) =
            ((7..columns + 7).map(value).collect(), (5..rows * stride + 5).map(value).collect());
        let starts = [Onto::Nothing, Onto::Sums, Onto::Rows(&others)]
            .into_iter()
            .flat_map(|onto| [None, Some(&row[..])].map(|row| Start { row, onto }));
        for sizes in [Panelled::new(inner, columns), Panelled::for_many_rows(inner, columns)] {
            for panels in [sizes.of_rows(&matrix), sizes.of_columns(&transposed)] {
                for start in starts.clone() {
                    let mut output = vec![1.0; rows * stride - 2];
                    let mut beside = vec![0.0; sizes.elements_beside(rows)];
                    let panels = &Panels::new(panels.storage(), sizes);
                    let (made, beside) = (&mut output, &mut beside);
                    vectorised(Product { panels, left: &left, rows, start, output: made, stride, beside });
                    for (at, found) in output.iter().enumerate() {
                        let (row, column) = (at / stride, at % stride);
                        let products =
                            (0..inner).map(|k| left[row * inner + k] * matrix[k * columns + column]);
                        let before = match start.onto {
                            Onto::Nothing => 0.0,
                            Onto::Sums => 1.0,
                            Onto::Rows(rows) => rows[at],
                        };
                        let expected = match column < columns {
                            true => products.sum::<f32>() + before + start.row.map_or(0.0, |row| row[column]),
                            false => 1.0,
                        };
                        // Small whole numbers are exact in any order.
                        assert_eq!(*found, expected, "{rows} × {inner} × {columns} at {at}");
                    }
                }
            }
        }
    }
}

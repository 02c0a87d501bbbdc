//! What goes back to parameters that many rows were multiplied by: sums over those rows, added to what is there.
//!
//! Letters: N rows, R and C features of what is multiplied.

use burn::tensor::Tensor;
use burn_backend::DType;
use rayon::prelude::*;

use super::{
    Kernels, Own, Workspace, cast,
    panels::{Panelled, Panels},
    room,
    rows::{floats, zeros},
    vector::{Loops, vectorised},
    workers,
};

/// Rows that are multiplied at once: they stay in the second cache.
const AT_ONCE: usize = 512;

/// Rows of the sums that a task computes, at most.
const ROWS: usize = 64;

/// leftᵀ · right, added to `sum` where there is one: in place, where nobody else holds that.
///
/// # Shapes
/// `sum` `[R, C]`, `left` `[N, R]`, `right` `[N, C]`, all of 32 bits.
pub(crate) fn add_product(
    sum: Option<Tensor<2>>,
    left: Tensor<2>,
    right: Tensor<2>,
    kernels: Kernels,
) -> Tensor<2> {
    let ([count, rows], [_, columns]) = (left.dims(), right.dims());
    if kernels == Kernels::Composed {
        return added(sum, cast(left.transpose().matmul(right), DType::F32, kernels));
    }
    let dims = [rows, columns];
    let sum = sum.unwrap_or_else(|| room(dims, DType::F32, left.clone(), kernels));
    let accumulate = Accumulate { count, rows, columns };
    let operation = Own {
        name: "add_product",
        inputs: vec![sum.into(), left.into(), right.into()],
        outputs: vec![(dims.to_vec(), DType::F32)],
        in_place: 1,
    };
    let made = operation.run_within(accumulate.workspace(), |mut inputs| {
        let rest = inputs.split_off(1);
        accumulate.run(inputs[0].storage_mut(), floats(&rest[0]), floats(&rest[1]));
        inputs
    });
    // The operation has one output, of the sum's rank.
    made.into_iter().next().and_then(crate::AnyTensor::float).expect("the sum is a matrix")
}

fn added<const D: usize>(sum: Option<Tensor<D>>, more: Tensor<D>) -> Tensor<D> {
    match sum {
        Some(sum) => sum + more,
        None => more,
    }
}

#[derive(Clone, Copy)]
struct Accumulate {
    count: usize,
    rows: usize,
    columns: usize,
}

impl Accumulate {
    fn at_once(self) -> usize {
        self.count.min(AT_ONCE)
    }

    fn workspace(self) -> Workspace {
        let right = Panelled::new(self.at_once(), self.columns);
        Workspace {
            shared: right.elements(),
            of_each: right.elements_beside(ROWS.min(self.rows)),
            tasks: self.rows.div_ceil(right.rows_of_a_tile()),
        }
    }

    /// Rows of the sums that a task computes: few enough that there are tasks for all threads.
    fn rows_of_a_task(self, tile: usize) -> usize {
        let tasks = 2 * rayon::current_num_threads();
        self.rows.div_ceil(tasks).next_multiple_of(tile).clamp(1, ROWS)
    }

    fn run(self, sum: &mut [f32], left: &[f32], right: &[f32]) {
        let Self { rows, columns, .. } = self;
        let workspace = self.workspace();
        let mut packed = zeros(workspace.shared);
        let mut workspaces = workspace.of_threads();
        let some = self.at_once().max(1);
        let parts = left.chunks((some * rows).max(1)).zip(right.chunks((some * columns).max(1)));
        for (left, right) in parts {
            let sizes = Panelled::new(right.len() / columns.max(1), columns);
            let packed = &mut packed[..sizes.elements()];
            sizes.put_rows(right, packed);
            let panels = Panels::new(packed, sizes);
            let of_task = self.rows_of_a_task(sizes.rows_of_a_tile());
            let tasks = sum.chunks_mut((of_task * columns).max(1)).enumerate();
            workers::each(tasks, &mut workspaces, workspace.of_each, |(index, sums), beside| {
                let left = &left[(index * of_task).min(left.len())..];
                vectorised(Part { panels: &panels, left: (left, rows), sums, columns, beside });
            });
        }
    }
}

/// Some rows of the sums.
struct Part<'a> {
    panels: &'a Panels<'a>,
    left: (&'a [f32], usize),
    sums: &'a mut [f32],
    columns: usize,
    beside: &'a mut [f32],
}

impl Loops for Part<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { panels, left: (left, stride), sums, columns, beside } = self;
        let put = panels.sizes().put_columns_of(left, stride);
        panels.add_product(sums.len() / columns, put, (sums, columns), beside);
    }
}

/// The sum over N rows, added to `sum` where there is one: in place, where nobody else holds that.
///
/// # Shapes
/// `sum` `[C]`, `rows` `[N, C]`, both of 32 bits.
pub(crate) fn add_columns(sum: Option<Tensor<1>>, rows: Tensor<2>, kernels: Kernels) -> Tensor<1> {
    let [_, columns] = rows.dims();
    if kernels == Kernels::Composed {
        return added(sum, rows.sum_dim(0).reshape([columns]));
    }
    let sum = sum.unwrap_or_else(|| room([columns], DType::F32, rows.clone(), kernels));
    let operation = Own {
        name: "add_columns",
        inputs: vec![sum.into(), rows.into()],
        outputs: vec![(vec![columns], DType::F32)],
        in_place: 1,
    };
    operation.run_one(|mut inputs| {
        let rest = inputs.split_off(1);
        let rows = floats(&rest[0]);
        // The only one that is left.
        let mut sum = inputs.swap_remove(0);
        sum.storage_mut::<f32>().par_chunks_mut(COLUMNS).enumerate().for_each(|(index, sums)| {
            vectorised(Columns { sums, rows, stride: columns, first: index * COLUMNS });
        });
        sum
    })
}

/// Columns that a task sums up.
const COLUMNS: usize = 256;

/// Sums of neighbouring columns.
struct Columns<'a> {
    sums: &'a mut [f32],
    rows: &'a [f32],
    stride: usize,
    first: usize,
}

impl Loops for Columns<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { sums, rows, stride, first } = self;
        for row in rows.chunks_exact(stride) {
            sums.iter_mut().zip(&row[first..]).for_each(|(sum, value)| *sum += value);
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;
    use crate::AnyTensor;

    fn matrix(dims: [usize; 2], salt: usize) -> (Vec<f32>, Tensor<2>) {
        let value = |at: usize| ((at * 37 + at / 7 * salt) % 11) as f32 - 5.0;
        let values: Vec<f32> = (0..dims[0] * dims[1]).map(value).collect();
        let tensor = Tensor::from_data(TensorData::new(values.clone(), dims), &Device::flex());
        (values, tensor)
    }

    fn host<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
        AnyTensor::from(tensor).to_host().expect("the CPU does not fail")
    }

    #[test]
    fn sums_of_products_over_rows_are_added() {
        for (count, rows, columns) in [(1, 1, 1), (5, 3, 7), (32, 64, 32), (40, 70, 33), (1100, 9, 40)] {
            let (left, left_tensor) = matrix([count, rows], 1);
            let (right, right_tensor) = matrix([count, columns], 3);
            let (sum, sum_tensor) = matrix([rows, columns], 5);
            let expected: Vec<f32> = (0..rows * columns)
                .map(|at| {
                    let (row, column) = (at / columns, at % columns);
                    let products = (0..count).map(|i| left[i * rows + row] * right[i * columns + column]);
                    // Small whole numbers are exact in any order.
                    sum[at] + products.sum::<f32>()
                })
                .collect();
            for kernels in [Kernels::Own, Kernels::Composed] {
                let made =
                    add_product(Some(sum_tensor.clone()), left_tensor.clone(), right_tensor.clone(), kernels);
                assert_eq!(host(made), expected, "{count} × {rows} × {columns}, {kernels:?}");
            }
        }
    }

    #[test]
    fn sums_over_rows_are_added() {
        for (count, columns) in [(1, 1), (5, 7), (40, 600)] {
            let (rows, tensor) = matrix([count, columns], 1);
            let expected: Vec<f32> = (0..columns)
                .map(|column| 1.0 + (0..count).map(|row| rows[row * columns + column]).sum::<f32>())
                .collect();
            for kernels in [Kernels::Own, Kernels::Composed] {
                let ones = Tensor::ones([columns], &Device::flex());
                let made = add_columns(Some(ones), tensor.clone(), kernels);
                assert_eq!(host(made), expected, "{count} × {columns}, {kernels:?}");
            }
        }
    }
}

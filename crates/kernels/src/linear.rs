//! Products of a linear layer: forward, and back to its input and its weight.
//!
//! Letters: N rows, I features of the input, O features of the output. The weight is `[O, I]`.
//!
//! Burn's own product writes its result in memory that one thread fills with zeros and copies before, and another pass adds the bias:
//! a tenth of the time of a small transformer.

use burn::tensor::Tensor;
use burn_backend::{DType, Shape, TensorMetadata};
use burn_flex::FlexTensor;

use crate::{
    any_tensor::ranked,
    cast::cast,
    custom_op::{CustomOp, Workspace},
    flex_tensor::{tensor, vector, zeros},
    kernels::Kernels,
    panels::{OutputRows, Panelled, Panels},
    reduce::dot,
    simd::{SimdLoops, by_vectors, vectorised},
    stored_float::{StoredFloat, StoredFloats, by_dtype, with_values},
    uninit, workers,
};

/// Rows of a task.
const ROWS: usize = 64;

/// Rows that are summed over at once: so many are packed beside their tensor.
const SUMMED: usize = 2048;

/// x Wᵀ + b, `[N, O]`, in the format of the input. Sums have 32 bits.
pub fn linear(input: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>, kernels: Kernels) -> Tensor<2> {
    if kernels != Kernels::Cpu {
        let output = input.matmul(weight.transpose());
        return match bias {
            Some(bias) => output + bias.unsqueeze(),
            None => output,
        };
    }
    let ([rows, inner], [outputs, _], dtype) = (input.dims(), weight.dims(), input.dtype());
    let sizes = Panelled::new(inner, outputs);
    let workspace = if rows == 1 { workspace_of_row(inner, outputs) } else { workspace(rows, sizes) };
    let operation = CustomOp {
        name: "linear",
        inputs: [input.into(), weight.into()].into_iter().chain(bias.map(Into::into)).collect(),
        outputs: vec![(vec![rows, outputs], dtype)],
        in_place: 0,
    };
    let [output] = operation.run_within(workspace, |inputs| {
        let bias: Option<Vec<f32>> = inputs.get(2).map(widened);
        if rows == 1 {
            return vec![row_times(&inputs[0], &inputs[1], bias.as_deref(), workspace)];
        }
        let panels = with_values!(StoredFloats::of(&inputs[1]), weight => {
            sizes.packed_columns(|row| &weight[row * inner..][..inner])
        });
        vec![rows_times(&inputs[0], sizes, &panels, bias.as_deref(), workspace)]
    });
    ranked(output)
}

/// The gradient of the input, g W, `[N, I]`, in the format of the gradient `[N, O]`.
pub fn linear_input_backward(gradient: Tensor<2>, weight: Tensor<2>, kernels: Kernels) -> Tensor<2> {
    if kernels != Kernels::Cpu {
        return gradient.matmul(weight);
    }
    let ([rows, _], [outputs, features], dtype) = (gradient.dims(), weight.dims(), gradient.dtype());
    let sizes = Panelled::new(outputs, features);
    let workspace = workspace(rows, sizes);
    let operation = CustomOp {
        name: "linear_input_backward",
        inputs: vec![gradient.into(), weight.into()],
        outputs: vec![(vec![rows, features], dtype)],
        in_place: 0,
    };
    let [made] = operation.run_within(workspace, |inputs| {
        let panels = with_values!(StoredFloats::of(&inputs[1]), weight => {
            sizes.packed_rows(|row| &weight[row * features..][..features])
        });
        vec![rows_times(&inputs[0], sizes, &panels, None, workspace)]
    });
    ranked(made)
}

/// The gradients of the weight, gᵀ x, `[O, I]`, and of the bias, `[O]`, in 32 bits.
pub fn linear_weight_backward(
    gradient: Tensor<2>,
    input: Tensor<2>,
    kernels: Kernels,
) -> (Tensor<2>, Tensor<1>) {
    let ([rows, outputs], [_, features]) = (gradient.dims(), input.dims());
    if kernels != Kernels::Cpu {
        let wide = |gradient: Tensor<2>| cast(gradient, DType::F32, kernels);
        let bias = wide(gradient.clone()).sum_dim(0).reshape([outputs]);
        return (wide(gradient.transpose().matmul(input)), bias);
    }
    let sizes = Panelled::new(SUMMED.min(rows), features);
    let workspace = Workspace {
        shared: sizes.elements(),
        of_each: sizes.elements_beside(ROWS),
        tasks: outputs.div_ceil(ROWS),
        ..Workspace::default()
    };
    let operation = CustomOp {
        name: "linear_weight_backward",
        inputs: vec![gradient.into(), input.into()],
        outputs: vec![(vec![outputs, features], DType::F32), (vec![outputs], DType::F32)],
        in_place: 0,
    };
    let [weight, bias] = operation.run_within(workspace, |inputs| {
        let sums = WeightSums { gradient: StoredFloats::of(&inputs[0]), rows, outputs, features, workspace };
        sums.over(StoredFloats::of(&inputs[1]))
    });
    (ranked(weight), ranked(bias))
}

/// The workspace of `rows` rows times a matrix: its panels, and for each task rows in tiles and their results.
fn workspace(rows: usize, sizes: Panelled) -> Workspace {
    Workspace {
        shared: sizes.elements(),
        of_each: of_results(sizes) + sizes.elements_beside(ROWS),
        tasks: rows.div_ceil(ROWS),
        ..Workspace::default()
    }
}

/// The workspace of one row times a matrix: the row, and for each task a row of the matrix.
fn workspace_of_row(inner: usize, outputs: usize) -> Workspace {
    Workspace { shared: inner, of_each: inner, tasks: outputs.div_ceil(ROWS), ..Workspace::default() }
}

fn of_results(sizes: Panelled) -> usize {
    sizes.tile.padded_rows(ROWS) * sizes.columns
}

fn widened(tensor: &FlexTensor) -> Vec<f32> {
    with_values!(StoredFloats::of(tensor), values => values.iter().map(|value| value.widened()).collect())
}

/// One row times the transpose of a matrix, plus a row. Panels would be read once, so the matrix is read where it lies.
fn row_times(
    row: &FlexTensor,
    matrix: &FlexTensor,
    plus: Option<&[f32]>,
    workspace: Workspace,
) -> FlexTensor {
    let (row_values, outputs) = (&widened(row), matrix.shape()[0]);
    let matrix = StoredFloats::of(matrix);
    by_dtype!(row.dtype(), E => {
        let (made, ()) = uninit::made::<E, _>(outputs, |made| {
            workers::each(made.parts(ROWS).enumerate(), workspace, |(part, mut made), loaded| {
                let (first, mut results) = (part * ROWS, [0.0; ROWS]);
                let results = &mut results[..ROWS.min(outputs - first)];
                vectorised(Dots { matrix, first, row: row_values, loaded, results });
                if let Some(plus) = plus {
                    results.iter_mut().zip(&plus[first..]).for_each(|(result, plus)| *result += plus);
                }
                made.write_first(results);
            });
        });
        E::tensor(made, Shape::from([1, outputs]))
    })
}

/// The products of rows of a matrix, from the `first` on, with one row.
struct Dots<'a> {
    matrix: StoredFloats<'a>,
    first: usize,
    row: &'a [f32],
    /// A row of the matrix in 32 bits.
    loaded: &'a mut [f32],
    results: &'a mut [f32],
}

impl SimdLoops for Dots<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { matrix, first, row, loaded, results } = self;
        for (index, result) in results.iter_mut().enumerate() {
            let start = (first + index) * row.len();
            *result = match matrix {
                StoredFloats::F32(values) => dot(&values[start..][..row.len()], row),
                matrix => {
                    matrix.load(start, loaded);
                    dot(loaded, row)
                }
            };
        }
    }
}

/// The rows of a tensor times a matrix in panels, plus a row.
fn rows_times(
    left: &FlexTensor,
    sizes: Panelled,
    panels: &[f32],
    plus: Option<&[f32]>,
    workspace: Workspace,
) -> FlexTensor {
    let (inner, columns, rows) = (sizes.inner, sizes.columns, left.shape()[0]);
    let values = StoredFloats::of(left);
    let panels = &Panels::new(panels, sizes);
    by_dtype!(left.dtype(), E => {
        let (made, ()) = uninit::made::<E, _>(rows * columns, |made| {
            let parts = made.parts(ROWS * columns).enumerate();
            workers::each(parts, workspace, |(part, mut made), workspace| {
                by_vectors(|| {
                    let (first, count) = (part * ROWS, ROWS.min(rows - part * ROWS));
                    let (results, beside) = workspace.split_at_mut(of_results(sizes));
                    let put = |rows, inner_range, tile: &mut [f32]| {
                        with_values!(values, left => {
                            let row = |row: usize| &left[(first + row) * inner..][..inner];
                            sizes.put_rows_of(row)(rows, inner_range, tile);
                        });
                    };
                    let output = OutputRows { elements: &mut *results, stride: columns };
                    panels.multiply(count, put, output, beside, false);
                    for row in results.chunks_exact_mut(columns).take(count) {
                        if let Some(plus) = plus {
                            row.iter_mut().zip(plus).for_each(|(value, plus)| *value += plus);
                        }
                        made.write_first(row);
                    }
                });
            });
        });
        E::tensor(made, Shape::from([rows, columns]))
    })
}

/// The sums over rows of the products of gradients and inputs.
struct WeightSums<'a> {
    gradient: StoredFloats<'a>,
    rows: usize,
    outputs: usize,
    features: usize,
    workspace: Workspace,
}

impl WeightSums<'_> {
    /// The gradients of weight and bias.
    fn over(&self, input: StoredFloats<'_>) -> Vec<FlexTensor> {
        let Self { rows, outputs, features, workspace, .. } = *self;
        let (mut weight, mut bias) = (zeros(outputs * features), zeros(outputs));
        for first in (0..rows).step_by(SUMMED) {
            let count = SUMMED.min(rows - first);
            let sizes = Panelled::new(count, features);
            let packed = with_values!(input, input => {
                sizes.packed_rows(|row| &input[(first + row) * features..][..features])
            });
            let panels = &Panels::new(&packed, sizes);
            let parts = weight.chunks_mut((ROWS * features).max(1)).zip(bias.chunks_mut(ROWS)).enumerate();
            workers::each(parts, workspace, |(part, (weight, bias)), workspace| {
                by_vectors(|| self.add(first, part * ROWS, panels, [weight, bias], workspace));
            });
        }
        vec![tensor(weight, &[outputs, features]), vector(bias)]
    }

    /// Adds the products of some rows to those outputs whose sums are given.
    #[inline(always)]
    fn add(
        &self,
        first_row: usize,
        output: usize,
        panels: &Panels<'_>,
        [weight, bias]: [&mut [f32]; 2],
        workspace: &mut [f32],
    ) {
        let (sizes, stride) = (panels.sizes, self.outputs);
        let put = |columns, inner, tile: &mut [f32]| {
            with_values!(self.gradient, gradient => {
                let gradient = &gradient[first_row * stride + output..];
                sizes.put_columns_of(gradient, stride)(columns, inner, tile);
            });
        };
        let (tiles, last) = sizes.in_tiles(bias.len(), put, workspace);
        sizes.add_row_sums(tiles, bias);
        let output = OutputRows { elements: weight, stride: self.features };
        panels.multiply_tiles(bias.len(), tiles, output, last, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truth::{distance, stored, values};

    /// The product of a matrix of `inner` columns by the transpose of another.
    fn product(left: &[f64], right: &[f64], inner: usize) -> Vec<f64> {
        let dot = |row: &[f64], other: &[f64]| row.iter().zip(other).map(|(one, other)| one * other).sum();
        left.chunks(inner).flat_map(|row| right.chunks(inner).map(move |other| dot(row, other))).collect()
    }

    fn transposed(values: &[f64], columns: usize) -> Vec<f64> {
        (0..columns).flat_map(|column| values.chunks(columns).map(move |row| row[column])).collect()
    }

    #[test]
    fn products_are_those_of_64_bits() {
        for [rows, inputs, outputs] in
            [[1, 1, 1], [1, 300, 130], [3, 7, 5], [65, 33, 40], [130, 300, 9], [2100, 4, 70]]
        {
            for (dtype, tolerance) in [(DType::F32, 1e-6), (DType::BF16, 4e-3), (DType::F16, 5e-4)] {
                let [input, gradient] = [("input", inputs), ("gradient", outputs)]
                    .map(|(name, columns)| stored(name, [rows, columns], dtype));
                let (weight, bias) =
                    (stored("weight", [outputs, inputs], dtype), stored("bias", [outputs], dtype));
                let [x, g, w] = [&input, &gradient, &weight].map(|tensor| values(tensor.clone()));
                let b = values(bias.clone());
                let (of_weight, of_bias) =
                    linear_weight_backward(gradient.clone(), input.clone(), Kernels::Cpu);
                let plus = |product: Vec<f64>| {
                    product.iter().zip(b.iter().cycle()).map(|(one, b)| one + b).collect()
                };
                let sums = transposed(&g, outputs).chunks(rows).map(|row| row.iter().sum()).collect();
                let transposed_input = transposed(&x, inputs);
                let checks: [(Vec<f64>, Vec<f64>); 4] = [
                    (
                        values(linear(input, weight.clone(), Some(bias), Kernels::Cpu)),
                        plus(product(&x, &w, inputs)),
                    ),
                    (
                        values(linear_input_backward(gradient, weight, Kernels::Cpu)),
                        product(&g, &transposed(&w, inputs), outputs),
                    ),
                    (values(of_weight), product(&transposed(&g, outputs), &transposed_input, rows)),
                    (values(of_bias), sums),
                ];
                for (index, (found, expected)) in checks.iter().enumerate() {
                    let error = distance(found, expected);
                    let what = format!("{rows} × {inputs} → {outputs} {dtype:?}: {index}");
                    assert!(error < tolerance || expected.len() == 1 && error < 1e-2, "{what}: {error}");
                }
            }
        }
    }
}

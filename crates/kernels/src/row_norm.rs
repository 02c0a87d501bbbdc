//! Normalisation of rows: LayerNorm (Ba et al. 2016, <https://arxiv.org/abs/1607.06450>) and RMSNorm (Zhang & Sennrich 2019,
//! <https://arxiv.org/abs/1910.07467>).
//!
//! Letters: N rows, F features. Backward needs the input alone; it computes mean and deviation of a row again.

use std::ops::Range;

use burn::tensor::Tensor;
use burn_backend::{DType, Shape};
use burn_flex::FlexTensor;

use crate::{
    any_tensor::ranked,
    cast::cast,
    custom_op::{CustomOp, Workspace},
    flex_tensor::{floats, vector},
    kernels::Kernels,
    reduce::{dot, reduce, sum},
    simd::{SimdLoops, vectorised},
    stored_float::{StoredFloat, StoredFloats, by_dtype},
    uninit::{self, UninitSlice},
    workers,
};

/// How a row is normalised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowNorm {
    /// Whether the mean of a row is taken off first: LayerNorm does, RMSNorm does not.
    pub is_centred: bool,
    /// Added to the mean square.
    pub epsilon: f32,
}

/// The gradients of a normalisation of rows.
#[derive(Debug)]
pub struct RowNormGradients {
    /// The gradient of the input, `[N, F]`, in its format.
    pub input: Tensor<2>,
    /// The gradient of the weight, `[F]`.
    pub weight: Tensor<1>,
    /// The gradient of the shift, `[F]`.
    pub shift: Tensor<1>,
}

/// Parts of the rows, at most: the sums over rows are those of the parts, in order.
const PARTS: usize = 16;

/// Rows of a part, at least.
const ROWS: usize = 32;

fn rows_of_part(rows: usize) -> usize {
    rows.div_ceil(PARTS).max(ROWS)
}

impl RowNorm {
    /// Each row normalised, times `weight`, plus `shift`, both `[F]`; in the format of the input.
    pub fn apply(
        self,
        input: Tensor<2>,
        weight: Tensor<1>,
        shift: Option<Tensor<1>>,
        kernels: Kernels,
    ) -> Tensor<2> {
        let dims @ [rows, features] = input.dims();
        let dtype = input.dtype();
        if kernels != Kernels::Cpu {
            let (normed, _) = self.normed(input);
            let output = normed * weight.unsqueeze();
            let output = match shift {
                Some(shift) => output + shift.unsqueeze(),
                None => output,
            };
            return cast(output, dtype, Kernels::Composed);
        }
        let of_part = rows_of_part(rows);
        let workspace =
            Workspace { of_each: features, tasks: rows.div_ceil(of_part), ..Workspace::default() };
        let operation = CustomOp {
            name: "row_norm",
            inputs: [input.into(), weight.into()].into_iter().chain(shift.map(Into::into)).collect(),
            outputs: vec![(dims.to_vec(), dtype)],
            in_place: 0,
        };
        let [output] = operation.run_within(workspace, |inputs| {
            let (weight, shift) = (floats(&inputs[1]), inputs.get(2).map(floats));
            let read = StoredFloats::of(&inputs[0]);
            let made = by_dtype!(dtype, E => {
                let (made, ()) = uninit::made::<E, _>(rows * features, |made| {
                    let parts = made.parts(of_part * features).enumerate();
                    workers::each(parts, workspace, |(part, made), row| {
                        let rows = part * of_part..(part * of_part + of_part).min(rows);
                        vectorised(ApplyRows { norm: self, read, rows, weight, shift, row, made });
                    });
                });
                E::tensor(made, Shape::from(dims))
            });
            vec![made]
        });
        ranked(output)
    }

    /// The mean that is taken off a row, and 1 / √(mean square + ε).
    #[inline(always)]
    fn moments(self, row: &[f32]) -> (f32, f32) {
        let count = row.len() as f32;
        let mean = if self.is_centred { sum(row) / count } else { 0.0 };
        (mean, 1.0 / (squares(row, mean) / count + self.epsilon).sqrt())
    }

    /// The normalised rows in 32 bits, and 1 / √(mean square + ε) of each, `[N, 1]`.
    fn normed(self, input: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        let input = cast(input, DType::F32, Kernels::Composed);
        let input = if self.is_centred { input.clone() - input.mean_dim(1) } else { input };
        let inverse = (input.clone().square().mean_dim(1) + self.epsilon).sqrt().recip();
        (input * inverse.clone(), inverse)
    }

    /// The gradients of input, weight and shift. `gradient` is that of the output, and `onto`, `[N, F]`, is added to the gradient of the
    /// input, as that of a shortcut around what follows.
    ///
    /// With x̂ the normalised row, g the gradient and g′ = g · weight: shift′ = Σg, weight′ = Σg·x̂, and the input's gradient is
    /// (g′ − mean g′ − x̂ · mean(g′·x̂)) / √(mean square + ε), where RMSNorm has no mean g′.
    pub fn backward(
        self,
        input: Tensor<2>,
        gradient: Tensor<2>,
        weight: Tensor<1>,
        onto: Option<Tensor<2>>,
        kernels: Kernels,
    ) -> RowNormGradients {
        if kernels == Kernels::Cpu {
            return self.backward_own(input, gradient, weight, onto);
        }
        let RowNormGradients { input, weight, shift } = self.backward_composed(input, gradient, weight);
        let input = match onto {
            Some(onto) => input + onto,
            None => input,
        };
        RowNormGradients { input, weight, shift }
    }

    fn backward_composed(self, input: Tensor<2>, gradient: Tensor<2>, weight: Tensor<1>) -> RowNormGradients {
        let ([_, features], dtype) = (input.dims(), input.dtype());
        let gradient = cast(gradient, DType::F32, Kernels::Composed);
        let (normed, inverse) = self.normed(input);
        let column = |sums: Tensor<2>| sums.reshape([features]);
        let of_shift = column(gradient.clone().sum_dim(0));
        let of_weight = column((gradient.clone() * normed.clone()).sum_dim(0));
        let gradient = gradient * weight.unsqueeze();
        let slope = (gradient.clone() * normed.clone()).mean_dim(1);
        let gradient = if self.is_centred { gradient.clone() - gradient.mean_dim(1) } else { gradient };
        let input = (gradient - normed * slope) * inverse;
        RowNormGradients { input: cast(input, dtype, Kernels::Composed), weight: of_weight, shift: of_shift }
    }

    fn backward_own(
        self,
        input: Tensor<2>,
        gradient: Tensor<2>,
        weight: Tensor<1>,
        onto: Option<Tensor<2>>,
    ) -> RowNormGradients {
        let dims @ [rows, features] = input.dims();
        let dtype = input.dtype();
        let of_part = rows_of_part(rows);
        let tasks = rows.div_ceil(of_part);
        let workspace =
            Workspace { of_each: 2 * features, shared: 2 * tasks * features, tasks, ..Workspace::default() };
        let of_features = (vec![features], DType::F32);
        let operation = CustomOp {
            name: "row_norm_backward",
            inputs: [input.into(), gradient.into(), weight.into()]
                .into_iter()
                .chain(onto.map(Into::into))
                .collect(),
            outputs: vec![(dims.to_vec(), dtype), of_features.clone(), of_features],
            in_place: 0,
        };
        let [input, weight, shift] = operation.run_within(workspace, |inputs| {
            let kernel = Backward {
                norm: self,
                input: StoredFloats::of(&inputs[0]),
                gradient: StoredFloats::of(&inputs[1]),
                weight: floats(&inputs[2]),
                onto: inputs.get(3).map(StoredFloats::of),
                of_part,
                rows,
            };
            by_dtype!(dtype, E => kernel.run::<E>(dims, workspace))
        });
        RowNormGradients { input: ranked(input), weight: ranked(weight), shift: ranked(shift) }
    }
}

struct Backward<'a> {
    norm: RowNorm,
    input: StoredFloats<'a>,
    gradient: StoredFloats<'a>,
    weight: &'a [f32],
    /// What is added to the gradient of the input.
    onto: Option<StoredFloats<'a>>,
    /// Rows of a part.
    of_part: usize,
    rows: usize,
}

impl Backward<'_> {
    fn run<E: StoredFloat>(&self, dims: [usize; 2], workspace: Workspace) -> Vec<FlexTensor> {
        let features = dims[1];
        let mut sums = vec![0.0; workspace.shared];
        let (made, ()) = uninit::made::<E, _>(dims[0] * features, |made| {
            let parts =
                made.parts(self.of_part * features).zip(sums.chunks_mut((2 * features).max(1))).enumerate();
            workers::each(parts, workspace, |(part, (made, sums)), buffers| {
                let rows = part * self.of_part..((part + 1) * self.of_part).min(self.rows);
                vectorised(BackwardRows { kernel: self, rows, sums, buffers, made });
            });
        });
        let mut total = vec![0.0; 2 * features];
        for part in sums.chunks(total.len().max(1)) {
            total.iter_mut().zip(part).for_each(|(total, part)| *total += part);
        }
        let shift = total.split_off(features);
        vec![E::tensor(made, Shape::from(dims)), vector(total), vector(shift)]
    }

    /// Adds to the sums of weight and shift, and makes the gradient that of the input.
    #[inline(always)]
    fn row(&self, row: &mut [f32], gradient: &mut [f32], sums: &mut [f32]) {
        let (of_weight, of_shift) = sums.split_at_mut(row.len());
        let (mean, inverse) = self.norm.moments(row);
        row.iter_mut().for_each(|value| *value = (*value - mean) * inverse);
        for ((sum, gradient), value) in of_weight.iter_mut().zip(&*gradient).zip(&*row) {
            *sum += gradient * value;
        }
        of_shift.iter_mut().zip(&*gradient).for_each(|(sum, gradient)| *sum += gradient);
        gradient.iter_mut().zip(self.weight).for_each(|(gradient, weight)| *gradient *= weight);
        let count = row.len() as f32;
        let constant = if self.norm.is_centred { sum(gradient) / count } else { 0.0 };
        let slope = dot(gradient, row) / count;
        for (gradient, value) in gradient.iter_mut().zip(row) {
            *gradient = (*gradient - constant - *value * slope) * inverse;
        }
    }
}

/// Normalises some rows.
struct ApplyRows<'a, 'b, E> {
    norm: RowNorm,
    read: StoredFloats<'a>,
    rows: Range<usize>,
    weight: &'a [f32],
    shift: Option<&'a [f32]>,
    /// A row in 32 bits.
    row: &'a mut [f32],
    made: UninitSlice<'b, E>,
}

impl<E: StoredFloat> SimdLoops for ApplyRows<'_, '_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { norm, read, rows, weight, shift, row, mut made } = self;
        for index in rows {
            read.load(index * row.len(), row);
            let (mean, inverse) = norm.moments(row);
            for (value, weight) in row.iter_mut().zip(weight) {
                *value = (*value - mean) * inverse * weight;
            }
            made.write_first_plus(row, shift);
        }
    }
}

/// Goes back through some rows.
struct BackwardRows<'a, 'b, E> {
    kernel: &'a Backward<'a>,
    rows: Range<usize>,
    /// Those of weight and shift.
    sums: &'a mut [f32],
    /// A row and its gradient, in 32 bits.
    buffers: &'a mut [f32],
    made: UninitSlice<'b, E>,
}

impl<E: StoredFloat> SimdLoops for BackwardRows<'_, '_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { kernel, rows, sums, buffers, mut made } = self;
        let (row, gradient) = buffers.split_at_mut(buffers.len() / 2);
        for index in rows {
            kernel.input.load(index * row.len(), row);
            kernel.gradient.load(index * row.len(), gradient);
            kernel.row(row, gradient, sums);
            let onto = kernel.onto.map(|onto| {
                onto.load(index * row.len(), row);
                &*row
            });
            made.write_first_plus(gradient, onto);
        }
    }
}

/// The sum of the squares of a row without its mean.
#[inline(always)]
fn squares(row: &[f32], mean: f32) -> f32 {
    reduce(row, |value| (value - mean) * (value - mean))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truth::{distance, numbers, stored, values};

    /// The output, and the gradients of input, weight and shift, in 64 bits.
    fn naive(norm: RowNorm, input: &[f64], gradient: &[f64], [weight, shift]: [&[f64]; 2]) -> [Vec<f64>; 4] {
        let count = weight.len();
        let [mut output, mut of_input] = [Vec::new(), Vec::new()];
        let [mut of_weight, mut of_shift] = [vec![0.0; count], vec![0.0; count]];
        for (row, gradient) in input.chunks(count).zip(gradient.chunks(count)) {
            let mean = |row: &mut dyn Iterator<Item = f64>| row.sum::<f64>() / count as f64;
            let centre = if norm.is_centred { mean(&mut row.iter().copied()) } else { 0.0 };
            let square = mean(&mut row.iter().map(|value| (value - centre).powi(2)));
            let inverse = 1.0 / (square + f64::from(norm.epsilon)).sqrt();
            let normed: Vec<f64> = row.iter().map(|value| (value - centre) * inverse).collect();
            let scaled: Vec<f64> =
                gradient.iter().zip(weight).map(|(gradient, weight)| gradient * weight).collect();
            let constant = if norm.is_centred { mean(&mut scaled.iter().copied()) } else { 0.0 };
            let slope = mean(&mut scaled.iter().zip(&normed).map(|(scaled, normed)| scaled * normed));
            for index in 0..count {
                output.push(normed[index] * weight[index] + shift[index]);
                of_input.push((scaled[index] - constant - normed[index] * slope) * inverse);
                of_weight[index] += gradient[index] * normed[index];
                of_shift[index] += gradient[index];
            }
        }
        [output, of_input, of_weight, of_shift]
    }

    #[test]
    fn rows_are_normalised_as_in_64_bits() {
        for (rows, features) in [(1, 5), (3, 7), (70, 33), (600, 48)] {
            for (is_centred, dtype, tolerance) in [
                (true, DType::F32, 3e-6),
                (false, DType::F32, 3e-6),
                (true, DType::BF16, 8e-3),
                (false, DType::F16, 1e-3),
            ] {
                let norm = RowNorm { is_centred, epsilon: 1e-3 };
                let of = |name, count: usize| {
                    Tensor::<1>::from_data(&numbers(count, name)[..], &Default::default())
                };
                let [weight, shift] = ["weight", "shift"].map(|name| of(name, features));
                let [input, gradient] =
                    ["input", "gradient"].map(|name| stored(name, [rows, features], dtype));
                let [scale, offset] = [&weight, &shift].map(|vector| values(vector.clone()));
                let expected =
                    naive(norm, &values(input.clone()), &values(gradient.clone()), [&scale, &offset]);
                for kernels in [Kernels::Cpu, Kernels::Composed] {
                    let output = norm.apply(input.clone(), weight.clone(), Some(shift.clone()), kernels);
                    let backward =
                        |onto| norm.backward(input.clone(), gradient.clone(), weight.clone(), onto, kernels);
                    let made = backward(None);
                    let onto: Vec<f64> =
                        expected[1].iter().zip(values(gradient.clone())).map(|(a, b)| a + b).collect();
                    let error = distance(&values(backward(Some(gradient.clone())).input), &onto);
                    assert!(
                        error < tolerance,
                        "{norm:?} {dtype:?} {kernels:?}, with a gradient added: {error}"
                    );
                    let vectors = [made.weight, made.shift].map(values);
                    let found = [values(output), values(made.input)].into_iter().chain(vectors);
                    for (index, (found, expected)) in found.zip(&expected).enumerate() {
                        let error = distance(&found, expected);
                        let what = format!("{norm:?} {rows}×{features} {dtype:?} {kernels:?}: {index}");
                        assert!(error < tolerance, "{what}: {error}");
                    }
                }
            }
        }
    }
}

//! The activations of a transformer's feed-forward layers. Backward needs their input alone.

use std::ops::Range;

use burn::tensor::{Tensor, activation};
use burn_backend::{DType, Shape};

use crate::{
    activations::{erf, exp, sigmoid, tanh},
    any_tensor::ranked,
    cast::cast,
    custom_op::{CustomOp, Workspace},
    kernels::Kernels,
    simd::{SimdLoops, multiply_add, vectorised},
    stored_float::{StoredFloat, StoredFloats, by_dtype},
    uninit::{self, UninitSlice},
    workers,
};

/// An activation of rows, `[N, F]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// x·Φ(x), with the normal distribution's Φ (Hendrycks & Gimpel 2016, <https://arxiv.org/abs/1606.08415>).
    Gelu,
    /// GELU with tanh in place of Φ, as GPT-2 has it.
    GeluTanh,
    /// SwiGLU (Shazeer 2020, <https://arxiv.org/abs/2002.05202>): of a row of `[gate, value]`, gate · σ(gate) · value, which is half as
    /// long.
    SwiGlu,
}

/// Rows of a task.
const ROWS: usize = 16;

/// √(2/π) and the factor of x³ in the argument of tanh.
const TANH: [f32; 2] = [0.797_884_6, 0.044_715];

impl Activation {
    /// The features of the output for `features` of the input.
    pub fn outputs(self, features: usize) -> usize {
        match self {
            Self::Gelu | Self::GeluTanh => features,
            Self::SwiGlu => features / 2,
        }
    }

    /// The features of the input for `outputs` of the output.
    pub fn inputs(self, outputs: usize) -> usize {
        match self {
            Self::Gelu | Self::GeluTanh => outputs,
            Self::SwiGlu => 2 * outputs,
        }
    }

    /// The name of the recorded operation: forward, or `back`.
    pub fn operation(self, back: bool) -> &'static str {
        match (self, back) {
            (Self::Gelu, false) => "gelu_rows",
            (Self::Gelu, true) => "gelu_rows_backward",
            (Self::GeluTanh, false) => "gelu_tanh_rows",
            (Self::GeluTanh, true) => "gelu_tanh_rows_backward",
            (Self::SwiGlu, false) => "swiglu_rows",
            (Self::SwiGlu, true) => "swiglu_rows_backward",
        }
    }

    /// The activation, in the format of the input.
    pub fn apply(self, input: Tensor<2>, kernels: Kernels) -> Tensor<2> {
        let [_, features] = input.dims();
        match kernels {
            Kernels::Cpu => self.own(input, None, self.outputs(features)),
            Kernels::Gpu | Kernels::Composed => {
                let dtype = input.dtype();
                let input = cast(input, DType::F32, Kernels::Composed);
                cast(self.composed(input), dtype, Kernels::Composed)
            }
        }
    }

    /// The gradient of the input, in its format. `gradient` is that of the output.
    pub fn backward(self, input: Tensor<2>, gradient: Tensor<2>, kernels: Kernels) -> Tensor<2> {
        let [_, features] = input.dims();
        match kernels {
            Kernels::Cpu => self.own(input, Some(gradient), features),
            Kernels::Gpu | Kernels::Composed => {
                let dtype = input.dtype();
                let [input, gradient] =
                    [input, gradient].map(|tensor| cast(tensor, DType::F32, Kernels::Composed));
                cast(self.composed_backward(input, gradient), dtype, Kernels::Composed)
            }
        }
    }

    /// The activation of rows of 32 bits by Burn's operations, which keep in the autodiff graph what their backward passes need.
    pub fn composed(self, input: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Gelu => activation::gelu(input),
            Self::GeluTanh => {
                let inner = argument(input.clone());
                input * (inner.tanh() + 1.0) * 0.5
            }
            Self::SwiGlu => {
                let [gate, value] = halves(input);
                activation::silu(gate) * value
            }
        }
    }

    fn composed_backward(self, input: Tensor<2>, gradient: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Gelu => {
                // Φ(x) + x·φ(x)
                let below = ((input.clone() * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0) * 0.5;
                let density = (input.clone().square() * -0.5).exp() * 0.398_942_3;
                gradient * (below + input * density)
            }
            Self::GeluTanh => {
                let tanh = argument(input.clone()).tanh();
                let slope = (input.clone().square() * (3.0 * TANH[1]) + 1.0) * TANH[0];
                let curve = (tanh.clone().square().neg() + 1.0) * slope * input;
                gradient * ((tanh + 1.0) + curve) * 0.5
            }
            Self::SwiGlu => {
                let [gate, value] = halves(input);
                let open = activation::sigmoid(gate.clone());
                let slope = open.clone() * (gate.clone() * (open.clone().neg() + 1.0) + 1.0);
                Tensor::cat(vec![gradient.clone() * value * slope, gradient * gate * open], 1)
            }
        }
    }

    /// Runs the kernel: forward, or backward with a gradient.
    fn own(self, input: Tensor<2>, gradient: Option<Tensor<2>>, features: usize) -> Tensor<2> {
        let ([rows, width], dtype) = (input.dims(), input.dtype());
        let workspace = Workspace { of_each: 2 * width, tasks: rows.div_ceil(ROWS), ..Workspace::default() };
        let shape = [rows, features];
        let operation = CustomOp {
            name: self.operation(gradient.is_some()),
            inputs: [input].into_iter().chain(gradient).map(Into::into).collect(),
            outputs: vec![(shape.to_vec(), dtype)],
            in_place: 0,
        };
        let [made] = operation.run_within(workspace, |inputs| {
            let input = StoredFloats::of(&inputs[0]);
            let gradient = inputs.get(1).map(StoredFloats::of);
            let made = by_dtype!(dtype, E => {
                let (made, ()) = uninit::made::<E, _>(rows * features, |made| {
                    workers::each(made.parts(ROWS * features).enumerate(), workspace, |(part, made), buffers| {
                        let rows = part * ROWS..(part * ROWS + ROWS).min(rows);
                        vectorised(Rows { activation: self, input, gradient, rows, width, buffers, made });
                    });
                });
                E::tensor(made, Shape::from(shape))
            });
            vec![made]
        });
        ranked(made)
    }
}

/// Some rows of an activation, or with a gradient of its input's gradient.
struct Rows<'a, E> {
    activation: Activation,
    input: StoredFloats<'a>,
    gradient: Option<StoredFloats<'a>>,
    rows: Range<usize>,
    /// Features of the input.
    width: usize,
    /// A row of the input and one of the gradient, in 32 bits.
    buffers: &'a mut [f32],
    made: UninitSlice<'a, E>,
}

impl<E: StoredFloat> SimdLoops for Rows<'_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { activation, input, gradient, rows, width, buffers, mut made } = self;
        let outputs = activation.outputs(width);
        let (row, of_output) = buffers.split_at_mut(width);
        let of_output = &mut of_output[..outputs];
        for index in rows {
            input.load(index * width, row);
            match gradient {
                None => {
                    activation.change::<FUSED>(row, None);
                    made.write_first(&row[..outputs]);
                }
                Some(gradient) => {
                    gradient.load(index * outputs, of_output);
                    activation.change::<FUSED>(row, Some(of_output));
                    made.write_first(row);
                }
            }
        }
    }
}

impl Activation {
    /// The name of a product with what the activation makes of its input.
    pub(crate) fn product(self) -> &'static str {
        match self {
            Self::Gelu => "linear_behind_gelu",
            Self::GeluTanh => "linear_behind_gelu_tanh",
            Self::SwiGlu => "linear_behind_swiglu",
        }
    }

    /// The name of the gradients of such a product's weight and bias.
    pub(crate) fn weight_product(self) -> &'static str {
        match self {
            Self::Gelu => "linear_weight_backward_behind_gelu",
            Self::GeluTanh => "linear_weight_backward_behind_gelu_tanh",
            Self::SwiGlu => "linear_weight_backward_behind_swiglu",
        }
    }

    /// Loads some of a row's `features` outputs to the begin of `to`, which has room for twice as many. The row's input begins at an
    /// element of `input`.
    #[inline(always)]
    pub(crate) fn load<const FUSED: bool>(
        self,
        input: StoredFloats<'_>,
        begin: usize,
        features: usize,
        some: Range<usize>,
        to: &mut [f32],
    ) {
        let (first, second) = to.split_at_mut(some.len());
        input.load(begin + some.start, first);
        if self == Self::SwiGlu {
            input.load(begin + features + some.start, &mut second[..some.len()]);
        }
        self.change::<FUSED>(&mut to[..self.inputs(some.len())], None);
    }

    /// Replaces a row by its activation, or by the gradient of the input.
    #[inline(always)]
    fn change<const FUSED: bool>(self, row: &mut [f32], gradient: Option<&[f32]>) {
        match self {
            Self::Gelu => each(row, gradient, gelu::<FUSED>),
            Self::GeluTanh => each(row, gradient, gelu_tanh::<FUSED>),
            Self::SwiGlu => {
                let (gates, values) = row.split_at_mut(row.len() / 2);
                let pairs = gates.iter_mut().zip(values);
                match gradient {
                    None => pairs.for_each(|(gate, value)| *gate *= sigmoid::<FUSED>(*gate) * *value),
                    Some(gradients) => pairs.zip(gradients).for_each(|((gate, value), gradient)| {
                        let open = sigmoid::<FUSED>(*gate);
                        let of_value = gradient * *gate * open;
                        *gate = gradient * *value * open * (1.0 + *gate * (1.0 - open));
                        *value = of_value;
                    }),
                }
            }
        }
    }
}

/// Replaces each value by the activation, or by its slope times the gradient. `of` gives both.
#[inline(always)]
fn each(row: &mut [f32], gradient: Option<&[f32]>, of: impl Fn(f32) -> (f32, f32)) {
    match gradient {
        None => row.iter_mut().for_each(|value| *value = of(*value).0),
        Some(gradients) => {
            row.iter_mut().zip(gradients).for_each(|(value, gradient)| *value = gradient * of(*value).1)
        }
    }
}

/// x·Φ(x), and its slope.
#[inline(always)]
fn gelu<const FUSED: bool>(x: f32) -> (f32, f32) {
    let below = 0.5 * (1.0 + erf::<FUSED>(x * std::f32::consts::FRAC_1_SQRT_2));
    let density = 0.398_942_3 * exp::<FUSED>(-0.5 * x * x);
    (x * below, multiply_add::<FUSED>(x, density, below))
}

/// GELU by tanh, and its slope.
#[inline(always)]
fn gelu_tanh<const FUSED: bool>(x: f32) -> (f32, f32) {
    let [scale, cubic] = TANH;
    let square = x * x;
    let tanh = tanh::<FUSED>(scale * x * (1.0 + cubic * square));
    let curve = (1.0 - tanh * tanh) * scale * (1.0 + 3.0 * cubic * square) * x;
    (0.5 * x * (1.0 + tanh), 0.5 * (1.0 + tanh + curve))
}

/// The argument of tanh.
fn argument(input: Tensor<2>) -> Tensor<2> {
    (input.clone() + input.powi_scalar(3) * TANH[1]) * TANH[0]
}

fn halves(input: Tensor<2>) -> [Tensor<2>; 2] {
    let [_, width] = input.dims();
    [0, 1].map(|half| input.clone().narrow(1, half * width / 2, width / 2))
}

#[cfg(test)]
mod tests {
    use burn_backend::DType;

    use super::*;
    use crate::truth::{distance, stored, values};

    /// GELU and its slope, in 64 bits.
    fn gelu(x: f64) -> (f64, f64) {
        let below = 0.5 * (1.0 + erf(x / std::f64::consts::SQRT_2));
        (x * below, below + x * (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt())
    }

    /// The error function by its series, which is exact for the numbers of these tests.
    fn erf(x: f64) -> f64 {
        let terms = (0..80).scan(x, |power, n: i32| {
            let term = *power / f64::from(2 * n + 1);
            *power *= -x * x / f64::from(n + 1);
            Some(term)
        });
        terms.sum::<f64>() * 2.0 / std::f64::consts::PI.sqrt()
    }

    fn gelu_tanh(x: f64) -> (f64, f64) {
        let scale = (2.0 / std::f64::consts::PI).sqrt();
        let tanh = (scale * (x + 0.044_715 * x.powi(3))).tanh();
        let slope = (1.0 - tanh * tanh) * scale * (1.0 + 3.0 * 0.044_715 * x * x);
        (0.5 * x * (1.0 + tanh), 0.5 * (1.0 + tanh) + 0.5 * x * slope)
    }

    /// The output and the gradient of the input.
    fn naive(activation: Activation, input: &[f64], gradient: &[f64], width: usize) -> [Vec<f64>; 2] {
        let alone = |of: fn(f64) -> (f64, f64)| {
            let output = input.iter().map(|x| of(*x).0).collect();
            [output, input.iter().zip(gradient).map(|(x, gradient)| gradient * of(*x).1).collect()]
        };
        match activation {
            Activation::Gelu => alone(gelu),
            Activation::GeluTanh => alone(gelu_tanh),
            Activation::SwiGlu => {
                let [mut output, mut made] = [Vec::new(), Vec::new()];
                for (row, gradient) in input.chunks(width).zip(gradient.chunks(width / 2)) {
                    let (gates, numbers) = row.split_at(width / 2);
                    let open = |gate: f64| 1.0 / (1.0 + (-gate).exp());
                    let all = || gates.iter().zip(numbers).zip(gradient);
                    output.extend(all().map(|((gate, value), _)| gate * open(*gate) * value));
                    made.extend(all().map(|((gate, value), gradient)| {
                        gradient * value * open(*gate) * (1.0 + gate * (1.0 - open(*gate)))
                    }));
                    made.extend(all().map(|((gate, _), gradient)| gradient * gate * open(*gate)));
                }
                [output, made]
            }
        }
    }

    #[test]
    fn activations_are_those_of_64_bits() {
        for activation in [Activation::Gelu, Activation::GeluTanh, Activation::SwiGlu] {
            for (dtype, tolerance) in [(DType::F32, 1e-6), (DType::BF16, 6e-3), (DType::F16, 8e-4)] {
                let (rows, width) = (37, 46);
                let input = stored("input", [rows, width], dtype);
                let gradient = stored("gradient", [rows, activation.outputs(width)], dtype);
                let expected = naive(activation, &values(input.clone()), &values(gradient.clone()), width);
                for kernels in [Kernels::Cpu, Kernels::Composed] {
                    let output = values(activation.apply(input.clone(), kernels));
                    let made = values(activation.backward(input.clone(), gradient.clone(), kernels));
                    for (found, expected) in [output, made].iter().zip(&expected) {
                        let error = distance(found, expected);
                        assert!(error < tolerance, "{activation:?} {dtype:?} {kernels:?}: {error}");
                    }
                }
            }
        }
    }
}

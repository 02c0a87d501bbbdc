//! Products of a linear layer: forward, and back to its input and its weight.
//!
//! Letters: N rows, I features of the input, O features of the output. The weight is `[O, I]`.
//!
//! Burn's own product writes its result in memory that one thread fills with zeros and copies before, and another pass adds the bias:
//! a tenth of the time of a small transformer.

mod by_panels;
mod by_unit;
mod row;

use burn::tensor::{Tensor, bf16};
use burn_backend::DType;
use burn_flex::FlexTensor;
use oomph_bf16::MatrixUnit;

use self::{by_panels::ByPanels, by_unit::ByUnit};
use crate::{
    any_tensor::{AnyTensor, ranked},
    cast::cast,
    custom_op::CustomOp,
    feed_forward::Activation,
    flex_tensor::{tensor, vector},
    kernels::Kernels,
    matrix_unit::unit_for,
    stored_float::{StoredFloat, StoredFloats, with_values},
    tile::{Onto, Start},
};

/// x Wᵀ + b, `[N, O]`, in the format of the input; plus `onto`, which has the same shape and format. Sums have 32 bits.
pub fn linear(
    input: Tensor<2>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    onto: Option<Tensor<2>>,
    kernels: Kernels,
) -> Tensor<2> {
    if kernels != Kernels::Cpu {
        let output = input.matmul(weight.transpose());
        let output = match bias {
            Some(bias) => output + bias.unsqueeze(),
            None => output,
        };
        return match onto {
            Some(onto) => onto + output,
            None => output,
        };
    }
    let [columns, inner] = weight.dims();
    let matrix = Matrix { inner, columns, are_columns_along: true };
    matrix.times("linear", matrix.means([&input, &weight]), [input, weight], bias, onto)
}

/// As [`linear`], of what an activation makes of the input. It is made for some rows at a time.
pub fn linear_behind(
    activation: Activation,
    input: Tensor<2>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    onto: Option<Tensor<2>>,
    kernels: Kernels,
) -> Tensor<2> {
    let [columns, inner] = weight.dims();
    let matrix = Matrix { inner, columns, are_columns_along: true };
    let means = match matrix.means([&input, &weight]) {
        _ if kernels != Kernels::Cpu => None,
        Means::Panels(product) => Some(Means::Panels(product.behind(activation))),
        Means::Unit(product) => product.behind(activation).map(Means::Unit),
        Means::Row => None,
    };
    match means {
        Some(means) => matrix.times(activation.product(), means, [input, weight], bias, onto),
        None => linear(activation.apply(input, kernels), weight, bias, onto, kernels),
    }
}

/// The gradient of the input, g W, `[N, I]`, in the format of the gradient `[N, O]`.
pub fn linear_input_backward(gradient: Tensor<2>, weight: Tensor<2>, kernels: Kernels) -> Tensor<2> {
    if kernels != Kernels::Cpu {
        return gradient.matmul(weight);
    }
    let [inner, columns] = weight.dims();
    let matrix = Matrix { inner, columns, are_columns_along: false };
    matrix.times("linear_input_backward", matrix.means([&gradient, &weight]), [gradient, weight], None, None)
}

/// The gradients of the weight, gᵀ x, `[O, I]`, and of the bias, `[O]`, in 32 bits.
pub fn linear_weight_backward(
    gradient: Tensor<2>,
    input: Tensor<2>,
    kernels: Kernels,
) -> (Tensor<2>, Tensor<1>) {
    weight_backward(None, gradient, input, kernels)
}

/// As [`linear_weight_backward`], of what an activation makes of the input. Panels are made of it for some rows at a time; for the
/// processor's matrix unit, and off the CPU, it is made whole.
pub fn linear_weight_backward_behind(
    activation: Activation,
    gradient: Tensor<2>,
    input: Tensor<2>,
    kernels: Kernels,
) -> (Tensor<2>, Tensor<1>) {
    let [[rows, outputs], [_, width]] = [gradient.dims(), input.dims()];
    let sums = WeightSums { rows, outputs, features: activation.outputs(width) };
    if kernels == Kernels::Cpu && sums.unit(&gradient, &input).is_none() {
        return weight_backward(Some(activation), gradient, input, kernels);
    }
    weight_backward(None, gradient, activation.apply(input, kernels), kernels)
}

fn weight_backward(
    activation: Option<Activation>,
    gradient: Tensor<2>,
    input: Tensor<2>,
    kernels: Kernels,
) -> (Tensor<2>, Tensor<1>) {
    let ([rows, outputs], [_, width]) = (gradient.dims(), input.dims());
    if kernels != Kernels::Cpu {
        let wide = |gradient: Tensor<2>| cast(gradient, DType::F32, kernels);
        let bias = wide(gradient.clone()).sum_dim(0).reshape([outputs]);
        return (wide(gradient.transpose().matmul(input)), bias);
    }
    let features = activation.map_or(width, |activation| activation.outputs(width));
    let sums = WeightSums { rows, outputs, features };
    let unit = sums.unit(&gradient, &input);
    let workspace = match unit {
        Some(unit) => by_unit::workspace_of_sums(unit, sums, input.dtype()),
        None => by_panels::workspace_of_sums(sums),
    };
    let operation = CustomOp {
        name: activation.map_or("linear_weight_backward", Activation::weight_product),
        inputs: vec![gradient.into(), input.into()],
        outputs: vec![(vec![outputs, features], DType::F32), (vec![outputs], DType::F32)],
        in_place: 0,
    };
    let [weight, bias] = operation.run_within(workspace, |inputs| {
        let [gradient, input] = [&inputs[0], &inputs[1]].map(StoredFloats::of);
        let [weight, bias] = match (unit, gradient, input) {
            (Some(unit), StoredFloats::Bf16(gradient), StoredFloats::Bf16(input)) => {
                by_unit::weight_sums(unit, sums, [gradient, input])
            }
            (Some(unit), StoredFloats::F32(gradient), StoredFloats::F32(input)) => {
                by_unit::weight_sums(unit, sums, [gradient, input])
            }
            _ => by_panels::weight_sums(sums, activation, [gradient, input], workspace),
        };
        vec![tensor(weight, &[outputs, features]), vector(bias)]
    });
    (ranked(weight), ranked(bias))
}

/// The sizes of the sums over rows of the products of gradients and inputs.
#[derive(Clone, Copy)]
struct WeightSums {
    rows: usize,
    outputs: usize,
    features: usize,
}

impl WeightSums {
    /// The unit that multiplies gradients and inputs, if there is one and it is faster.
    fn unit(self, gradient: &Tensor<2>, input: &Tensor<2>) -> Option<MatrixUnit> {
        unit_for(gradient.dtype(), input.dtype())
            .filter(|_| gradient.dtype() != DType::F32 || by_unit::is_worth_it(self))
    }

    /// Outputs of a task. So many use each packed input while it is in the cache.
    const OUTPUTS: usize = 96;

    /// Rows that are summed over at once, as many in each part but the last. Their packed inputs fit into a core's second-level cache.
    fn summed(self) -> usize {
        const ELEMENTS: usize = 384 << 10;
        let most = (ELEMENTS / self.features.max(1)).clamp(256, 2048);
        let parts = self.rows.div_ceil(most).max(1);
        self.rows.div_ceil(parts).next_multiple_of(8).min(self.rows)
    }
}

/// The right matrix of a product.
#[derive(Clone, Copy)]
struct Matrix {
    inner: usize,
    columns: usize,
    /// Whether memory holds the columns one behind the other, and not the rows.
    are_columns_along: bool,
}

/// What is added to a product.
#[derive(Clone, Copy)]
struct Plus<'a> {
    /// A row, to each row of the product.
    row: Option<&'a [f32]>,
    /// A tensor of the product's shape and format.
    onto: Option<&'a FlexTensor>,
}

impl<'a> Plus<'a> {
    /// What products in 32 bits are added to, from an element of the product on.
    fn start(self, begin: usize) -> Start<'a> {
        Start { row: self.row, onto: self.rows(begin).map_or(Onto::Nothing, Onto::Rows) }
    }

    /// The rows to add, from an element of the product on.
    fn rows<E: StoredFloat>(self, begin: usize) -> Option<&'a [E]> {
        self.onto.map(|onto| &E::values(onto)[begin..])
    }
}

/// What multiplies rows by a matrix.
#[derive(Clone, Copy)]
enum Means {
    /// Dot products of one row.
    Row,
    Panels(ByPanels),
    Unit(ByUnit),
}

impl Matrix {
    /// What multiplies the rows of the left tensor by the matrix, which is the right one.
    fn means(self, [left, right]: [&Tensor<2>; 2]) -> Means {
        let [rows, _] = left.dims();
        match unit_for(left.dtype(), right.dtype()) {
            _ if rows == 1 && self.are_columns_along => Means::Row,
            Some(unit) => Means::Unit(ByUnit::new(unit, self, left.dtype())),
            None => Means::Panels(ByPanels::new(self)),
        }
    }

    /// The rows of `left` times the matrix, `right`; plus a row, plus a tensor of the product's shape.
    fn times(
        self,
        name: &'static str,
        means: Means,
        [left, right]: [Tensor<2>; 2],
        row: Option<Tensor<1>>,
        onto: Option<Tensor<2>>,
    ) -> Tensor<2> {
        let ([rows, _], dtype) = (left.dims(), left.dtype());
        let workspace = match means {
            Means::Row => row::workspace(self.inner, self.columns),
            Means::Panels(product) => product.workspace(rows),
            Means::Unit(product) => product.workspace(rows),
        };
        let has_row = row.is_some();
        let added = row.map(AnyTensor::from).into_iter().chain(onto.map(AnyTensor::from));
        let operation = CustomOp {
            name,
            inputs: [left.into(), right.into()].into_iter().chain(added).collect(),
            outputs: vec![(vec![rows, self.columns], dtype)],
            in_place: 0,
        };
        let [made] = operation.run_within(workspace, |inputs| {
            let [left, right] = [&inputs[0], &inputs[1]];
            let (row, onto) = inputs[2..].split_at(usize::from(has_row));
            let row = row.first().map(widened);
            let plus = Plus { row: row.as_deref(), onto: onto.first() };
            vec![match means {
                Means::Row => row::times(left, right, plus, workspace),
                Means::Panels(product) => product.multiply(left, right, plus, workspace),
                Means::Unit(product) => match dtype {
                    DType::BF16 => product.multiply::<bf16>(left, right, plus, workspace),
                    _ => product.multiply::<f32>(left, right, plus, workspace),
                },
            }]
        });
        ranked(made)
    }
}

fn widened(tensor: &FlexTensor) -> Vec<f32> {
    with_values!(StoredFloats::of(tensor), values => values.iter().map(|value| value.widened()).collect())
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
    fn no_rows_have_no_gradients() {
        let of_no_rows = |features| Tensor::<2>::zeros([0, features], &Default::default());
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            let [gradient, input] =
                [300, 260].map(|features| cast(of_no_rows(features), dtype, Kernels::Composed));
            let (weight, bias) = linear_weight_backward(gradient, input, Kernels::Cpu);
            assert_eq!((values(weight), values(bias)), (vec![0.0; 300 * 260], vec![0.0; 300]));
        }
    }

    #[test]
    fn a_product_behind_an_activation_is_that_of_its_output() {
        for activation in [Activation::Gelu, Activation::GeluTanh, Activation::SwiGlu] {
            for [rows, inputs, outputs] in [[1, 9, 4], [130, 300, 70], [25, 520, 33]] {
                for (dtype, tolerance) in [(DType::F32, 1e-6), (DType::BF16, 6e-3), (DType::F16, 1e-3)] {
                    let input = stored("input", [rows, activation.inputs(inputs)], dtype);
                    let [weight, onto] = [("weight", [outputs, inputs]), ("onto", [rows, outputs])]
                        .map(|(name, shape)| stored(name, shape, dtype));
                    let bias = Some(stored("bias", [outputs], dtype));
                    let made = activation.apply(input.clone(), Kernels::Cpu);
                    let expected =
                        linear(made, weight.clone(), bias.clone(), Some(onto.clone()), Kernels::Cpu);
                    let found = linear_behind(activation, input, weight, bias, Some(onto), Kernels::Cpu);
                    let error = distance(&values(found), &values(expected));
                    assert!(
                        error < tolerance,
                        "{activation:?} {rows} × {inputs} → {outputs} {dtype:?}: {error}"
                    );
                }
            }
        }
    }

    #[test]
    fn gradients_behind_an_activation_are_those_of_its_output() {
        for activation in [Activation::Gelu, Activation::SwiGlu] {
            for [rows, inputs, outputs] in [[1, 9, 4], [1300, 300, 70], [25, 520, 100]] {
                for (dtype, tolerance) in [(DType::F32, 1e-6), (DType::BF16, 6e-3), (DType::F16, 1e-3)] {
                    let input = stored("input", [rows, activation.inputs(inputs)], dtype);
                    let gradient = stored("gradient", [rows, outputs], dtype);
                    let made = activation.apply(input.clone(), Kernels::Cpu);
                    let expected = linear_weight_backward(gradient.clone(), made, Kernels::Cpu);
                    let found = linear_weight_backward_behind(activation, gradient, input, Kernels::Cpu);
                    let errors = [
                        distance(&values(found.0), &values(expected.0)),
                        distance(&values(found.1), &values(expected.1)),
                    ];
                    let is_near = errors.iter().all(|error| *error < tolerance);
                    assert!(is_near, "{activation:?} {rows} × {inputs} → {outputs} {dtype:?}: {errors:?}");
                }
            }
        }
    }

    #[test]
    fn products_are_those_of_64_bits() {
        for [rows, inputs, outputs] in [
            [1, 1, 1],
            [1, 300, 130],
            [3, 7, 5],
            [65, 33, 40],
            [130, 300, 9],
            [2100, 4, 70],
            [600, 520, 9],
            [30, 5, 800],
            // Gradients of weights of these sizes are worth the unit.
            [70, 300, 260],
            [1100, 260, 300],
        ] {
            for (dtype, tolerance) in [(DType::F32, 1e-6), (DType::BF16, 4e-3), (DType::F16, 5e-4)] {
                let [input, gradient] = [("input", inputs), ("gradient", outputs)]
                    .map(|(name, columns)| stored(name, [rows, columns], dtype));
                let (weight, bias) =
                    (stored("weight", [outputs, inputs], dtype), stored("bias", [outputs], dtype));
                let [x, g, w] = [&input, &gradient, &weight].map(|tensor| values(tensor.clone()));
                let b = values(bias.clone());
                let (of_weight, of_bias) =
                    linear_weight_backward(gradient.clone(), input.clone(), Kernels::Cpu);
                let plus = |product: Vec<f64>| -> Vec<f64> {
                    product.iter().zip(b.iter().cycle()).map(|(one, b)| one + b).collect()
                };
                let sums = transposed(&g, outputs).chunks(rows).map(|row| row.iter().sum()).collect();
                let transposed_input = transposed(&x, inputs);
                let onto = |product: Vec<f64>| product.iter().zip(&g).map(|(one, g)| one + g).collect();
                let forward =
                    |bias, onto| values(linear(input.clone(), weight.clone(), bias, onto, Kernels::Cpu));
                let added = Some(gradient.clone());
                let matrix = Matrix { inner: inputs, columns: outputs, are_columns_along: true };
                let panels = Means::Panels(ByPanels::new(matrix));
                let by_panels =
                    matrix.times("linear", panels, [input.clone(), weight.clone()], Some(bias.clone()), None);
                let checks: [(Vec<f64>, Vec<f64>); 7] = [
                    (values(by_panels), plus(product(&x, &w, inputs))),
                    (forward(Some(bias.clone()), None), plus(product(&x, &w, inputs))),
                    (forward(None, added.clone()), onto(product(&x, &w, inputs))),
                    (forward(Some(bias), added), onto(plus(product(&x, &w, inputs)))),
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

//! The custom operations around the kernels of convolutions.

use std::mem::MaybeUninit;

use burn::tensor::{Tensor, bf16};
use burn_backend::{DType, Shape};
use burn_flex::FlexTensor;

use super::{
    Slide,
    algorithm::ConvAlgorithm,
    by_unit::ByUnit,
    correlate::Correlate,
    direct::Direct,
    finish::{Finish, Finishing},
    gather::Gather,
    product::{ConvProduct, ConvSizes},
    sums_by_unit::SumsByUnit,
    winograd::{KernelGradient, Winograd},
    winograd_by_unit::{WinogradByUnit, WinogradSums},
};
use crate::{
    any_tensor::ranked,
    cast::cast,
    custom_op::CustomOp,
    flex_tensor::{tensor, zeros},
    kernels::Kernels,
    stored_float::{StoredFloat, StoredFloats, by_dtype},
    uninit,
    window::{Axis, backward_grids},
};

/// The sizes of a convolution, and its axes down and across.
fn shapes(input: [usize; 4], weight: [usize; 4], slide: Slide) -> (ConvSizes, [Axis; 2]) {
    let [batch, channels, height, width] = input;
    let [outputs, _, kernel_height, kernel_width] = weight;
    let axis = |source, kernel| Axis::forward(source, kernel, slide.stride, slide.padding);
    let axes = [axis(height, kernel_height), axis(width, kernel_width)];
    let sizes = ConvSizes {
        batch,
        channels: [channels, outputs],
        input: [height, width],
        output: [axes[0].grid, axes[1].grid],
        kernel: [kernel_height, kernel_width],
    };
    (sizes, axes)
}

/// The output of a convolution, in the format of the input.
pub(super) fn forward(input: Tensor<4>, weight: Tensor<4>, slide: Slide) -> Tensor<4> {
    let (sizes, axes) = shapes(input.dims(), weight.dims(), slide);
    multiply("conv2d", [input, weight], ConvProduct::forward(sizes), vec![axes], None)
}

/// The finished output of a convolution, in the format of the input.
pub(super) fn forward_finished(
    input: Tensor<4>,
    weight: Tensor<4>,
    slide: Slide,
    finish: Finish,
) -> Tensor<4> {
    let (sizes, axes) = shapes(input.dims(), weight.dims(), slide);
    multiply("conv2d", [input, weight], ConvProduct::forward(sizes), vec![axes], Some(finish))
}

/// The input's gradient, in the format of the output's.
pub(super) fn input_backward(
    input: [usize; 4],
    weight: Tensor<4>,
    gradient: Tensor<4>,
    slide: Slide,
) -> Tensor<4> {
    let (sizes, axes) = shapes(input, weight.dims(), slide);
    let grids = backward_grids(&axes);
    multiply("conv2d_input_backward", [gradient, weight], ConvProduct::backward(sizes), grids, None)
}

/// Computes a convolution forward or back to the input, by the matrix unit or by Winograd's algorithm where they are faster. Weights
/// are rounded to the format of the input: by the matrix unit's algorithms while they pack them.
fn multiply(
    name: &'static str,
    [read, weight]: [Tensor<4>; 2],
    product: ConvProduct,
    grids: Vec<[Axis; 2]>,
    finish: Option<Finish>,
) -> Tensor<4> {
    let dtype = read.dtype();
    let inputs =
        if weight.dtype() == DType::F32 { [read, weight] } else { [read, cast(weight, dtype, Kernels::Cpu)] };
    if let Some(winograd) = WinogradByUnit::where_it_pays(product, &grids, dtype) {
        return multiply_by::<bf16>(name, inputs, &winograd, finish);
    }
    if let Some(direct) = Direct::where_it_pays(product, &grids, dtype) {
        return multiply_by::<bf16>(name, inputs, &direct, finish);
    }
    let fewer = Winograd::where_it_pays(product, &grids);
    match ByUnit::where_it_pays(product, &grids, dtype, fewer.is_some()) {
        Some(unit) if dtype == DType::BF16 => return multiply_by::<bf16>(name, inputs, &unit, finish),
        Some(unit) => return multiply_by::<f32>(name, inputs, &unit, finish),
        None => {}
    }
    let [read, weight] = inputs;
    let inputs = [read, cast(weight, dtype, Kernels::Cpu)];
    by_dtype!(dtype, E => match fewer {
        Some(winograd) => multiply_by::<E>(name, inputs, &winograd, finish),
        None => multiply_by::<E>(name, inputs, &Gather::new(product, grids), finish),
    })
}

fn multiply_by<E: StoredFloat>(
    name: &'static str,
    [read, weight]: [Tensor<4>; 2],
    algorithm: &impl ConvAlgorithm<E>,
    finish: Option<Finish>,
) -> Tensor<4> {
    let dtype = read.dtype();
    let rectify = finish.as_ref().is_some_and(|finish| finish.rectify);
    let rest = finish.map(Finish::into_inputs).unwrap_or_default();
    let operation = CustomOp {
        name,
        inputs: [read.into(), weight.into()].into_iter().chain(rest).collect(),
        outputs: vec![(algorithm.frame().product.shape().to_vec(), dtype)],
        in_place: 0,
    };
    let [output] =
        operation.run_within(algorithm.workspace(), |inputs| vec![multiplied(algorithm, &inputs, rectify)]);
    ranked(output)
}

/// `inputs`: source and weights, and behind them those of a [`Finish`].
fn multiplied<E: StoredFloat>(
    algorithm: &impl ConvAlgorithm<E>,
    inputs: &[FlexTensor],
    rectify: bool,
) -> FlexTensor {
    let source = E::values(&inputs[0]);
    let finishing = Finishing::of(&inputs[2..], rectify);
    let shape = algorithm.frame().product.shape();
    let write = |target: &mut [MaybeUninit<E>]| algorithm.run(source, &inputs[1], target, finishing.as_ref());
    // SAFETY: the tasks cover the target and all run. Each writes all its rows: every pixel is in one grid or in one patch,
    // and pixels in no grid are written before.
    let elements = unsafe { uninit::written(shape.iter().product(), write) };
    E::tensor(elements, Shape::from(shape))
}

/// The gradient of the weight, in 32 bits.
pub(super) fn weight_backward(
    input: Tensor<4>,
    weight: [usize; 4],
    gradient: Tensor<4>,
    slide: Slide,
) -> Tensor<4> {
    let (sizes, axes) = shapes(input.dims(), weight, slide);
    let dtype = input.dtype();
    let is_same = dtype == gradient.dtype();
    let fewer = is_same.then(|| WinogradSums::where_it_pays(sizes, &axes, dtype)).flatten();
    let unit = (is_same && fewer.is_none()).then(|| SumsByUnit::where_it_pays(sizes, &axes, dtype)).flatten();
    let points = KernelGradient::where_it_pays(sizes, &axes);
    let correlate = Correlate::new(sizes, &axes, [dtype, gradient.dtype()]);
    let workspace = match (&fewer, &unit, &points) {
        (Some(fewer), ..) => fewer.workspace(),
        (None, Some(unit), _) => unit.sums.workspace(),
        (None, None, Some(points)) => points.workspace(),
        (None, None, None) => correlate.workspace(),
    };
    let operation = CustomOp {
        name: "conv2d_weight_backward",
        inputs: vec![input.into(), gradient.into()],
        outputs: vec![(weight.to_vec(), DType::F32)],
        in_place: 0,
    };
    let [gradient] = operation.run_within(workspace, |inputs| {
        let [input, gradient] = [&inputs[0], &inputs[1]].map(StoredFloats::of);
        let elements = match (fewer, unit, input, gradient) {
            (Some(fewer), _, StoredFloats::Bf16(input), StoredFloats::Bf16(gradient)) => {
                fewer.run(input, gradient)
            }
            (None, Some(unit), StoredFloats::F32(input), StoredFloats::F32(gradient)) => {
                unit.run(input, gradient)
            }
            (None, Some(unit), StoredFloats::Bf16(input), StoredFloats::Bf16(gradient)) => {
                unit.run(input, gradient)
            }
            (.., input, gradient) => {
                let weights = zeros(weight.iter().product());
                match points {
                    Some(points) => points.run(input, gradient, weights),
                    None => correlate.run(input, gradient, weights),
                }
            }
        };
        vec![tensor(elements, &weight)]
    });
    ranked(gradient)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flex_tensor::vector;

    fn sizes(batch: usize, channels: [usize; 2], size: [usize; 2]) -> ConvSizes {
        ConvSizes { batch, channels, input: size, output: size, kernel: [3; 2] }
    }

    /// The forward convolution, and its input's gradient.
    fn products(sizes: ConvSizes) -> [(ConvProduct, Vec<[Axis; 2]>); 2] {
        let axes = sizes.input.map(|size| Axis::forward(size, 3, 1, 1));
        let back = backward_grids(&axes);
        [(ConvProduct::forward(sizes), vec![axes]), (ConvProduct::backward(sizes), back)]
    }

    /// The results of both algorithms for a source and weights.
    fn by_fewer_and_by_all(
        product: ConvProduct,
        grids: Vec<[Axis; 2]>,
        value: impl Fn(usize) -> f32,
    ) -> [Vec<f32>; 2] {
        let source = product.batch * product.channels * product.source[0] * product.source[1];
        let counts = [source, product.rows * product.channels * 9];
        let inputs = counts.map(|count| (0..count).map(&value).collect::<Vec<_>>());
        let fewer = Winograd::new(product, &grids[0]);
        let all = Gather::new(product, grids);
        let inputs = inputs.map(vector);
        [multiplied::<f32>(&fewer, &inputs, false), multiplied::<f32>(&all, &inputs, false)]
            .map(|made| made.storage().to_vec())
    }

    #[test]
    fn fewer_products_give_what_all_of_them_give() {
        let mut all =
            vec![sizes(3, [130, 20], [6, 6]), sizes(1, [3, 270], [5, 4]), sizes(2, [2, 3], [40, 300])];
        for size in [[1, 1], [2, 2], [3, 3], [4, 4], [7, 7], [9, 8], [14, 14], [1, 17], [30, 1]] {
            for (batch, channels) in [(1, [1, 1]), (2, [9, 17]), (7, [33, 5])] {
                all.push(sizes(batch, channels, size));
            }
        }
        for sizes in all {
            for (product, grids) in products(sizes) {
                // Small whole numbers: sums of products are exact, and quarters of them.
                let value = |at| (at * 37 % 11) as f32 - 5.0;
                let [fewer, all] = by_fewer_and_by_all(product, grids, value);
                assert_eq!(fewer, all, "{product:?}");
            }
        }
    }

    #[test]
    fn rounding_grows_little() {
        let noise = |at: usize| ((at * 7919 + at / 13 * 104_729) % 10_007) as f32 / 10_007.0 - 0.5;
        for (product, grids) in products(sizes(1, [256, 16], [8, 8])) {
            let [fewer, all] = by_fewer_and_by_all(product, grids, noise);
            let size = |values: &[f32]| values.iter().map(|value| value * value).sum::<f32>().sqrt();
            let apart: Vec<f32> = fewer.iter().zip(&all).map(|(fewer, all)| fewer - all).collect();
            let error = size(&apart) / size(&all);
            assert!(error < 1e-6, "{error}: {product:?}");
        }
    }

    #[test]
    fn it_is_chosen_where_it_pays() {
        let pays = |sizes| {
            products(sizes).map(|(product, grids)| Winograd::where_it_pays(product, &grids).is_some())
        };
        assert_eq!(pays(sizes(32, [64, 64], [32, 32])), [true; 2]);
        assert_eq!(pays(sizes(32, [512, 512], [4, 4])), [true; 2]);
        for batch in 24..70 {
            assert_eq!(pays(sizes(batch, [512, 512], [4, 4])), [true; 2], "{batch}");
        }
        // Few channels, and few pixels for many kernels.
        assert_eq!(pays(sizes(32, [16, 16], [32, 32])), [false; 2]);
        assert_eq!(pays(sizes(1, [512, 512], [4, 4])), [false; 2]);
        // A row of patches exceeds the cache.
        assert_eq!(pays(sizes(8, [64, 64], [64, 4096])), [false; 2]);
    }

    #[test]
    fn kernels_of_other_sizes_are_not_taken_for_it() {
        // The one pixel of the input meets three elements of the kernel in each direction.
        let sizes = ConvSizes { kernel: [7; 2], ..sizes(8, [200, 200], [1, 1]) };
        let axes = [1, 1].map(|size| Axis::forward(size, 7, 3, 3));
        let grids = backward_grids(&axes);
        assert!(grids.len() == 1 && grids[0].iter().all(Axis::reads_three_around));
        assert!(Winograd::where_it_pays(ConvProduct::backward(sizes), &grids).is_none());
    }
}

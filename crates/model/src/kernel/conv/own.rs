//! The operations that are recorded and run, around the kernels.

use std::mem::MaybeUninit;

use burn::tensor::{Tensor, bf16, f16};
use burn_backend::{DType, Shape};
use burn_flex::FlexTensor;

use super::{
    Slide,
    correlate::Correlate,
    gather::Gather,
    product::{Product, Sizes},
    way::Way,
    window::{Axis, backward_grids},
    winograd::Winograd,
};
use crate::{
    AnyTensor,
    kernel::{
        Own, room,
        rows::{Value, Values, tensor, zeros},
    },
};

/// The sizes of a convolution, and its height and width.
fn shapes(input: [usize; 4], weight: [usize; 4], slide: Slide) -> (Sizes, [Axis; 2]) {
    let [batch, channels, height, width] = input;
    let [outputs, _, kernel_height, kernel_width] = weight;
    let axis = |source, kernel| Axis::forward(source, kernel, slide.stride, slide.padding);
    let axes = [axis(height, kernel_height), axis(width, kernel_width)];
    let sizes = Sizes {
        batch,
        channels: [channels, outputs],
        input: [height, width],
        output: [axes[0].grid, axes[1].grid],
        kernel: [kernel_height, kernel_width],
    };
    (sizes, axes)
}

/// The output, in the format of input and weight.
pub(super) fn forward(input: Tensor<4>, weight: Tensor<4>, slide: Slide) -> Tensor<4> {
    let (sizes, axes) = shapes(input.dims(), weight.dims(), slide);
    multiply("conv2d", [input, weight], Product::forward(sizes), vec![axes])
}

/// The input's gradient, in the format of weight and gradient.
pub(super) fn input_backward(
    input: [usize; 4],
    weight: Tensor<4>,
    gradient: Tensor<4>,
    slide: Slide,
) -> Tensor<4> {
    let (sizes, axes) = shapes(input, weight.dims(), slide);
    let grids = backward_grids(&axes);
    multiply("conv2d_input_backward", [gradient, weight], Product::backward(sizes), grids)
}

/// Computes a convolution forward or back to the input, by fewer products where that pays.
fn multiply(
    name: &'static str,
    inputs: [Tensor<4>; 2],
    product: Product,
    grids: Vec<[Axis; 2]>,
) -> Tensor<4> {
    match Winograd::where_it_pays(product, &grids) {
        Some(winograd) => multiply_by(name, inputs, &winograd),
        None => multiply_by(name, inputs, &Gather::new(product, grids)),
    }
}

fn multiply_by(name: &'static str, [read, weight]: [Tensor<4>; 2], way: &impl Way) -> Tensor<4> {
    let dtype = read.dtype();
    let operation = Own {
        name,
        inputs: vec![read.into(), weight.into()],
        outputs: vec![(way.product().shape().to_vec(), dtype)],
        in_place: 0,
    };
    let made = operation.run_within(way.workspace(), |inputs| {
        vec![match dtype {
            DType::BF16 => multiplied::<bf16>(way, &inputs),
            DType::F16 => multiplied::<f16>(way, &inputs),
            _ => multiplied::<f32>(way, &inputs),
        }]
    });
    image(made)
}

fn multiplied<E: Value>(way: &impl Way, inputs: &[FlexTensor]) -> FlexTensor {
    let (source, weights) = (E::values(&inputs[0]), E::values(&inputs[1]));
    let shape = way.product().shape();
    let write = |target: &mut [MaybeUninit<E>]| way.run(weights, source, target);
    // SAFETY: tasks are cut of the whole target and are all done. Each writes all its rows: every pixel is of one grid,
    // and those that none reads are written before, or of one patch.
    let elements = unsafe { room::written(shape.iter().product(), write) };
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
    let correlate = Correlate::new(sizes, &axes);
    let operation = Own {
        name: "conv2d_weight_backward",
        inputs: vec![input.into(), gradient.into()],
        outputs: vec![(weight.to_vec(), DType::F32)],
        in_place: 0,
    };
    let made = operation.run_within(correlate.workspace(), |inputs| {
        let mut elements = zeros(weight.iter().product());
        correlate.run(Values::of(&inputs[0]), Values::of(&inputs[1]), &mut elements);
        vec![tensor(elements, &weight)]
    });
    image(made)
}

fn image(mut made: Vec<AnyTensor>) -> Tensor<4> {
    // The operations above have one output each, of this rank.
    made.pop().and_then(AnyTensor::float).expect("an image or a kernel has rank 4")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::rows::vector;

    fn sizes(batch: usize, channels: [usize; 2], size: [usize; 2]) -> Sizes {
        Sizes { batch, channels, input: size, output: size, kernel: [3; 2] }
    }

    /// Forward and back to the input.
    fn ways(sizes: Sizes) -> [(Product, Vec<[Axis; 2]>); 2] {
        let axes = sizes.input.map(|size| Axis::forward(size, 3, 1, 1));
        let back = backward_grids(&axes);
        [(Product::forward(sizes), vec![axes]), (Product::backward(sizes), back)]
    }

    /// What both ways make of a source and weights.
    fn by_fewer_and_by_all(
        product: Product,
        grids: Vec<[Axis; 2]>,
        value: impl Fn(usize) -> f32,
    ) -> [Vec<f32>; 2] {
        let source = product.batch * product.channels * product.source[0] * product.source[1];
        let counts = [source, product.rows * product.channels * 9];
        let inputs = counts.map(|count| (0..count).map(&value).collect::<Vec<_>>());
        let fewer = Winograd::new(product, &grids[0]);
        let all = Gather::new(product, grids);
        let inputs = inputs.map(vector);
        [multiplied::<f32>(&fewer, &inputs), multiplied::<f32>(&all, &inputs)]
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
            for (product, grids) in ways(sizes) {
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
        for (product, grids) in ways(sizes(1, [256, 16], [8, 8])) {
            let [fewer, all] = by_fewer_and_by_all(product, grids, noise);
            let size = |values: &[f32]| values.iter().map(|value| value * value).sum::<f32>().sqrt();
            let apart: Vec<f32> = fewer.iter().zip(&all).map(|(fewer, all)| fewer - all).collect();
            let error = size(&apart) / size(&all);
            assert!(error < 1e-6, "{error}: {product:?}");
        }
    }

    #[test]
    fn it_is_chosen_where_it_pays() {
        let pays =
            |sizes| ways(sizes).map(|(product, grids)| Winograd::where_it_pays(product, &grids).is_some());
        assert_eq!(pays(sizes(32, [64, 64], [32, 32])), [true; 2]);
        assert_eq!(pays(sizes(32, [512, 512], [4, 4])), [true; 2]);
        for batch in 24..70 {
            assert_eq!(pays(sizes(batch, [512, 512], [4, 4])), [true; 2], "{batch}");
        }
        // Few channels, and few pixels for many kernels.
        assert_eq!(pays(sizes(32, [16, 16], [32, 32])), [false; 2]);
        assert_eq!(pays(sizes(1, [512, 512], [4, 4])), [false; 2]);
        // A row of patches is more than stays in a cache.
        assert_eq!(pays(sizes(8, [64, 64], [64, 4096])), [false; 2]);
    }

    #[test]
    fn kernels_of_other_sizes_are_not_taken_for_it() {
        // Of the one pixel of the input three elements in each direction are read, and each reads its own place.
        let sizes = Sizes { kernel: [7; 2], ..sizes(8, [200, 200], [1, 1]) };
        let axes = [1, 1].map(|size| Axis::forward(size, 7, 3, 3));
        let grids = backward_grids(&axes);
        assert!(grids.len() == 1 && grids[0].iter().all(Axis::reads_three_around));
        assert!(Winograd::where_it_pays(Product::backward(sizes), &grids).is_none());
    }
}

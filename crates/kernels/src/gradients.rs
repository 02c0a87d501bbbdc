//! Operations on all gradients of a model. On a GPU they are few launches; elsewhere they are one operation for each tensor.

use burn::tensor::Tensor;
use burn_backend::DType;
use burn_flex::Flex;
use oomph_core::{Account, charge};
use rayon::prelude::*;

use crate::{
    any_tensor::AnyTensor,
    backends::primitive_on,
    custom_op::CustomOp,
    flex_tensor::floats,
    gpu::{self, on_gpu},
    host::DeviceError,
    kernels::Kernels,
    simd::{SimdLoops, vectorised},
    workers,
};

/// A number to multiply with.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "one lives for a moment")]
pub enum Factor {
    /// One that the host knows.
    Number(f32),
    /// An element on the device, where it stays.
    Element(Tensor<1>),
}

/// The sum of the squares of all elements of all tensors, as one element on the device; `None` without tensors. The order of
/// summation is fixed.
///
/// # Panics
/// Panics if the tensors are not of 32 bits, or on another device than that of `kernels` and no capture device.
pub fn sum_of_squares(tensors: &[&AnyTensor], kernels: Kernels) -> Option<Tensor<1>> {
    sum(tensors, kernels, "sum_of_squares", AnyTensor::sum_of_squares)
}

/// The sum of the squares of all elements of all tensors, read to the host; 0 without tensors. The order of summation is
/// fixed.
///
/// On the CPU it reads the tensors where they are, sums in 64 bits, and takes no memory of the device. Elsewhere it reads
/// [`sum_of_squares`]. On a capture device it records what it does on the device of `kernels`, and returns 0.
///
/// # Errors
/// The device's own error, such as one left by an earlier kernel.
///
/// # Panics
/// As [`sum_of_squares`].
pub fn read_sum_of_squares(tensors: &[&AnyTensor], kernels: Kernels) -> Result<f64, DeviceError> {
    let is_recorded = tensors.first().is_some_and(|tensor| tensor.is_recorded());
    if kernels == Kernels::Cpu {
        let squares = tensors.iter().filter(|_| !is_recorded).map(|tensor| squares_in_place(tensor));
        return Ok(charge(Account::Host, || squares.sum()));
    }
    match sum_of_squares(tensors, kernels) {
        Some(sum) if !is_recorded => Ok(AnyTensor::from(sum).to_host()?.into_iter().map(f64::from).sum()),
        _ => Ok(0.0),
    }
}

/// The sum of the squares of a tensor on the CPU, by tasks of a fixed size: it does not depend on the number of threads.
fn squares_in_place(tensor: &AnyTensor) -> f64 {
    const TASK: usize = 64 << 10;
    // `read_sum_of_squares` asks for it with the kernels of the CPU alone.
    let tensor = primitive_on::<Flex>(tensor).expect("our own kernels run on the CPU").to_contiguous();
    let squares = |values: &[f32]| {
        let mut sum = 0.0;
        vectorised(Squares { values, sum: &mut sum });
        sum
    };
    let tasks: Vec<f64> = workers::map(floats(&tensor).par_chunks(TASK), squares).collect();
    tasks.iter().sum()
}

/// Sums the squares of values.
struct Squares<'a> {
    values: &'a [f32],
    sum: &'a mut f64,
}

impl SimdLoops for Squares<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        /// Sums side by side: a processor adds some at once, and begins with the next ones before these are done.
        const TRACKS: usize = 32;
        let mut sums = [0.0; TRACKS];
        let (whole, rest) = self.values.as_chunks::<TRACKS>();
        for values in whole {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += f64::from(*value) * f64::from(*value);
            }
        }
        for (sum, value) in sums.iter_mut().zip(rest) {
            *sum += f64::from(*value) * f64::from(*value);
        }
        *self.sum = sums.iter().sum();
    }
}

/// One element on the device: 0 if all elements of all tensors are finite, else NaN. `None` without tensors.
///
/// # Panics
/// As [`sum_of_squares`].
pub fn zero_if_finite(tensors: &[&AnyTensor], kernels: Kernels) -> Option<Tensor<1>> {
    sum(tensors, kernels, FINITE, AnyTensor::zero_if_finite)
}

/// The operation of [`zero_if_finite`].
const FINITE: &str = "zero_if_finite";

fn sum(
    tensors: &[&AnyTensor],
    kernels: Kernels,
    name: &'static str,
    of_one: fn(AnyTensor) -> Tensor<1>,
) -> Option<Tensor<1>> {
    if kernels != Kernels::Gpu {
        return tensors.iter().map(|tensor| of_one((*tensor).clone())).reduce(|sum, one| sum + one);
    }
    let partial_sums = oomph_gpu_kernels::tensor_sums(tensors.iter().map(|tensor| tensor.elements()));
    let inputs = tensors.iter().map(|tensor| (*tensor).clone()).collect::<Vec<_>>();
    if inputs.is_empty() {
        return None;
    }
    let operation = CustomOp { name, inputs, outputs: vec![(vec![1], DType::F32)], in_place: 0 };
    Some(gpu::one(on_gpu!(operation, [partial_sums], |inputs| {
        let term = match name {
            FINITE => oomph_gpu_kernels::gradients::Term::Finite,
            _ => oomph_gpu_kernels::gradients::Term::Square,
        };
        oomph_gpu_kernels::gradients::sum(inputs, term).into_iter().collect()
    })))
}

/// All tensors times `factor`, on a GPU. They overwrite the old ones where nobody else holds those.
///
/// # Panics
/// Panics if the tensors are not of 32 bits, or neither on one GPU nor on a capture device.
pub fn scale_on_gpu(tensors: Vec<AnyTensor>, factor: Factor) -> Vec<AnyTensor> {
    if tensors.is_empty() {
        return tensors;
    }
    let in_place = tensors.len();
    let outputs = tensors.iter().map(|tensor| (tensor.dims(), DType::F32)).collect();
    let mut inputs = tensors;
    #[cfg_attr(not(feature = "gpu"), expect(unused_variables, reason = "only the GPU's kernel reads it"))]
    let number = match factor {
        Factor::Number(number) => Some(number),
        Factor::Element(element) => {
            inputs.push(element.into());
            None
        }
    };
    let operation = CustomOp { name: "scale_all", inputs, outputs, in_place };
    on_gpu!(operation, [], |inputs| {
        let mut tensors = inputs;
        let factor = match (number, tensors.split_off(in_place).pop()) {
            (_, Some(element)) => oomph_gpu_kernels::gradients::Factor::Element(element),
            (number, None) => oomph_gpu_kernels::gradients::Factor::Number(number.unwrap_or(1.0)),
        };
        oomph_gpu_kernels::gradients::scale(tensors, &factor)
    })
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    /// Values of several magnitudes, and their exact sum of squares in 64 bits.
    fn tensors(device: &Device) -> (Vec<AnyTensor>, f64) {
        let shapes: [&[usize]; 3] = [&[3], &[300, 517], &[2, 3, 5, 7]];
        let mut exact = 0.0;
        let made = shapes.iter().enumerate().map(|(which, shape)| {
            let values =
                (0..shape.iter().product::<usize>()).map(|it| (it as f32 * 0.37).sin() * (1 + which) as f32);
            let values: Vec<f32> = values.collect();
            exact += values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>();
            AnyTensor::floats(values, shape, device)
        });
        (made.collect(), exact)
    }

    #[test]
    fn the_kernel_sums_squares_as_burns_operations_do() {
        let (tensors, exact) = tensors(&Device::flex());
        let tensors: Vec<_> = tensors.iter().collect();
        let of = |kernels| read_sum_of_squares(&tensors, kernels).expect("the CPU does not fail");
        let (ours, composed) = (of(Kernels::Cpu), of(Kernels::Composed));
        assert!((ours - exact).abs() < 1e-12 * exact, "{ours} instead of {exact}");
        assert!((composed - exact).abs() < 1e-5 * exact, "{composed} instead of {exact}");
        assert_eq!(read_sum_of_squares(&[], Kernels::Cpu), Ok(0.0));
    }

    #[test]
    fn the_sum_does_not_depend_on_the_number_of_threads() {
        let (tensors, _) = tensors(&Device::flex());
        let tensors: Vec<_> = tensors.iter().collect();
        let with_threads = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            pool.install(|| read_sum_of_squares(&tensors, Kernels::Cpu))
                .expect("the CPU does not fail")
                .to_bits()
        };
        assert_eq!(with_threads(1), with_threads(3));
    }
}

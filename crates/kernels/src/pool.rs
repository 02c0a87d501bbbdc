//! Max pooling: the greatest values of windows over images.
//!
//! Of equal values the first one of a window counts, and what is not a number is greater than every number, as in PyTorch. Our kernel notes
//! where a value stood by its index in the window, row by row: 8 bits instead of 32 or 64.

use burn::tensor::{
    Int, Tensor,
    module::{max_pool2d_with_indices, max_pool2d_with_indices_backward},
};
use burn_backend::{Bytes, DType, Shape};
use burn_flex::{FlexTensor, Layout};
use oomph_core::{Account, charge};

use crate::{
    any_tensor::ranked,
    custom_op::{CustomOp, Workspace, split},
    kernels::Kernels,
    simd::{SimdLoops, vectorised},
    stored_float::{StoredFloat, StoredFloats, by_dtype},
    uninit::{self, UninitSlice},
    window::{Axis, Line, PixelRun},
    workers,
};

/// Outputs of a row that are computed at once.
const AT_ONCE: usize = 16;

/// The largest kernel whose indices have 8 bits.
const LARGEST: usize = 16;

/// Square windows over images, which −∞ surrounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// The side of a window.
    pub kernel: usize,
    /// The distance between neighbours.
    pub stride: usize,
    /// Values around the image, less than the kernel.
    pub padding: usize,
}

/// The greatest values of windows.
#[derive(Debug)]
pub struct Maxima {
    /// The values, `[B, C, H', W']` with H' = (H + 2·padding − kernel) / stride + 1.
    pub values: Tensor<4>,
    /// Where they stood, for [`Windows::backward`].
    pub positions: Tensor<4, Int>,
}

impl Windows {
    /// The maxima of a plain tensor, `[B, C, H, W]`.
    pub fn maxima(self, input: Tensor<4>, kernels: Kernels) -> Maxima {
        if !self.has_kernel(kernels) {
            let [kernel, stride, padding] = self.twice();
            let (values, positions) = max_pool2d_with_indices(input, kernel, stride, padding, [1; 2], false);
            return Maxima { values, positions };
        }
        let (images, dtype) = (Images::of(self, input.dims()), input.dtype());
        let outputs = vec![(images.output_dims(), dtype), (images.output_dims(), DType::U8)];
        let workspace = images.workspace(images.of_lines());
        let operation = CustomOp { name: "max_pool", inputs: vec![input.into()], outputs, in_place: 0 };
        let [values, positions] = operation.run_within(workspace, |inputs| {
            let mut positions = vec![0; images.outputs()];
            let values = images.maxima(&inputs[0], dtype, &mut positions, workspace);
            let layout = Layout::contiguous(Shape::from(images.output_dims()));
            vec![values, FlexTensor::new(Bytes::from_elems(positions), layout, DType::U8)]
        });
        // The operation declares integers of this rank.
        Maxima { values: ranked(values), positions: positions.int().expect("positions of rank 4") }
    }

    /// The gradient of an input of shape `input` and format `dtype`: each of `gradient` is added where its maximum stood.
    pub fn backward(
        self,
        gradient: Tensor<4>,
        positions: Tensor<4, Int>,
        input: [usize; 4],
        dtype: DType,
        kernels: Kernels,
    ) -> Tensor<4> {
        if !self.has_kernel(kernels) {
            let [kernel, stride, padding] = self.twice();
            // Only shape and format of the input are read: a view of one element has them.
            let like = Tensor::<4>::zeros([1; 4], (&gradient.device(), dtype)).expand(input);
            return max_pool2d_with_indices_backward(
                like, kernel, stride, padding, [1; 2], false, gradient, positions,
            );
        }
        let images = Images::of(self, input);
        let workspace = images.workspace(images.input.iter().product::<usize>() + images.output[1]);
        let operation = CustomOp {
            name: "max_pool_backward",
            inputs: vec![gradient.into(), positions.into()],
            outputs: vec![(input.to_vec(), dtype)],
            in_place: 0,
        };
        operation.run_one(|inputs| {
            by_dtype!(dtype, E => {
                let values = images.gradient::<E>(StoredFloats::of(&inputs[0]), inputs[1].storage(), workspace);
                E::tensor(values, Shape::from(input))
            })
        })
    }

    fn has_kernel(self, kernels: Kernels) -> bool {
        kernels == Kernels::Cpu && self.kernel <= LARGEST
    }

    fn twice(self) -> [[usize; 2]; 3] {
        [[self.kernel; 2], [self.stride; 2], [self.padding; 2]]
    }
}

/// Images and their windows.
#[derive(Clone, Copy)]
struct Images {
    windows: Windows,
    /// Images and channels.
    planes: [usize; 2],
    input: [usize; 2],
    output: [usize; 2],
}

impl Images {
    fn of(windows: Windows, [batch, channels, height, width]: [usize; 4]) -> Self {
        let input = [height, width];
        let Windows { kernel, stride, padding } = windows;
        let output = input.map(|size| Axis::forward(size, kernel, stride, padding).grid);
        Self { windows, planes: [batch, channels], input, output }
    }

    fn output_dims(self) -> Vec<usize> {
        [self.planes, self.output].as_flattened().to_vec()
    }

    fn outputs(self) -> usize {
        self.planes.iter().chain(&self.output).product()
    }

    /// Memory of so many elements for a plane.
    fn workspace(self, of_each: usize) -> Workspace {
        Workspace { of_each, tasks: self.planes.iter().product(), ..Workspace::default() }
    }

    fn across(self) -> Axis {
        let Windows { kernel, stride, padding } = self.windows;
        Axis::forward(self.input[1], kernel, stride, padding)
    }

    /// A copy of a row, whose elements for one tap of neighbouring windows are contiguous.
    fn line(self, across: &Axis) -> Line {
        Line::by_tap(across, self.output[1].next_multiple_of(AT_ONCE))
    }

    /// Elements of as many copies of rows as a window has, and of the outputs of a plane, behind whose last row there is room.
    fn sizes_of_lines(self) -> [usize; 2] {
        let across = self.across();
        let of_lines = self.windows.kernel * self.line(&across).length(&across);
        [of_lines, self.output.iter().product::<usize>() + AT_ONCE]
    }

    fn of_lines(self) -> usize {
        self.sizes_of_lines().iter().sum()
    }

    fn maxima(
        self,
        input: &FlexTensor,
        dtype: DType,
        positions: &mut [u8],
        workspace: Workspace,
    ) -> FlexTensor {
        let [of_input, of_output] = self.planes_of_each();
        let (across, line, runs) = charge(Account::Host, || {
            let across = self.across();
            let line = self.line(&across);
            let runs: Vec<_> = line.runs(&across, 0).into_iter().filter(|run| run.length > 0).collect();
            (across, line, runs)
        });
        by_dtype!(dtype, E => {
            let planes = E::values(input).chunks_exact(of_input);
            let (values, ()) = uninit::made(self.outputs(), |values| {
                let made = values.parts(of_output).zip(positions.chunks_exact_mut(of_output));
                let tasks = planes.zip(made).map(|(plane, (values, positions))| (plane, values, positions));
                workers::each(tasks, workspace, |(plane, values, positions), workspace| {
                    let lines = Lines { images: self, across: &across, line, runs: &runs };
                    vectorised(PlaneMaxima { lines, plane, values, positions, workspace });
                });
            });
            E::tensor(values, Shape::from(self.output_dims()))
        })
    }

    fn gradient<E: StoredFloat>(
        self,
        gradient: StoredFloats<'_>,
        positions: &[u8],
        workspace: Workspace,
    ) -> Vec<E> {
        let [of_input, of_output] = self.planes_of_each();
        let all = self.planes.iter().product::<usize>() * of_input;
        let (values, ()) = uninit::made(all, |values| {
            let tasks = values.parts(of_input).zip(positions.chunks_exact(of_output)).enumerate();
            workers::each(tasks, workspace, |(index, (mut values, positions)), workspace| {
                let [plane, row] = split(workspace, [of_input, self.output[1]]);
                let first = index * of_output;
                vectorised(PlaneGradient { images: self, gradient, first, positions, plane, row });
                values.write_first(plane);
            });
        });
        values
    }

    /// Elements of a plane of the input, and of the output.
    fn planes_of_each(self) -> [usize; 2] {
        [self.input, self.output].map(|size| size.iter().product::<usize>().max(1))
    }
}

/// Copies of rows.
#[derive(Clone, Copy)]
struct Lines<'a> {
    images: Images,
    across: &'a Axis,
    line: Line,
    runs: &'a [PixelRun],
}

impl Lines<'_> {
    /// Copies a row of the source. All other elements keep −∞.
    #[inline(always)]
    fn load<E: StoredFloat>(&self, row: &[E], to: &mut [f32]) {
        for run in self.runs {
            let to = to[run.at..run.at + run.length].iter_mut();
            to.zip(row[run.source..].iter().step_by(run.step)).for_each(|(to, from)| *to = from.widened());
        }
    }
}

/// Finds the maxima of a plane.
struct PlaneMaxima<'a, E> {
    lines: Lines<'a>,
    plane: &'a [E],
    values: UninitSlice<'a, E>,
    positions: &'a mut [u8],
    workspace: &'a mut [f32],
}

impl<E: StoredFloat> SimdLoops for PlaneMaxima<'_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { lines, plane, mut values, positions, workspace } = self;
        let Images { windows: Windows { kernel, stride, padding }, input, output, .. } = lines.images;
        let [copies, found] = split(workspace, lines.images.sizes_of_lines());
        let of_line = copies.len() / kernel;
        copies.fill(f32::NEG_INFINITY);
        let mut loaded = 0;
        for (row, positions) in positions.chunks_exact_mut(output[1].max(1)).enumerate() {
            // The rows of the source that the windows read, of which some are before or behind the source.
            let first = row * stride;
            let within = first.max(padding) - padding..(first + kernel).saturating_sub(padding).min(input[0]);
            for read in loaded.max(within.start)..within.end {
                let row = &plane[read * input[1]..][..input[1]];
                lines.load(row, &mut copies[read % kernel * of_line..][..of_line]);
            }
            loaded = within.end;
            for (at, positions) in positions.chunks_mut(AT_ONCE).enumerate() {
                let (mut best, mut places) = ([f32::NEG_INFINITY; AT_ONCE], [0; AT_ONCE]);
                for read in within.clone() {
                    let copy = &copies[read % kernel * of_line..][..of_line];
                    let down = read + padding - first;
                    for tap in 0..kernel {
                        let begin = at * AT_ONCE + lines.line.tap(lines.across, tap);
                        let place = (down * kernel + tap) as u32;
                        let values = &copy[begin..][..AT_ONCE];
                        for ((best, at), value) in best.iter_mut().zip(&mut places).zip(values) {
                            let is_greater = *value > *best || value.is_nan();
                            *best = if is_greater { *value } else { *best };
                            *at = if is_greater { place } else { *at };
                        }
                    }
                }
                // What is behind the row is overwritten by the next one.
                found[row * output[1] + at * AT_ONCE..][..AT_ONCE].copy_from_slice(&best);
                positions.iter_mut().zip(places).for_each(|(to, place)| *to = place as u8);
            }
        }
        values.write_first(&found[..output[0] * output[1]]);
    }
}

/// Makes the gradient of a plane.
struct PlaneGradient<'a> {
    images: Images,
    gradient: StoredFloats<'a>,
    /// The first one of the plane's outputs.
    first: usize,
    positions: &'a [u8],
    plane: &'a mut [f32],
    /// Memory for the gradients of a row.
    row: &'a mut [f32],
}

impl SimdLoops for PlaneGradient<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { images, gradient, first, positions, plane, row } = self;
        let Images { windows: Windows { kernel, stride, padding }, input: [height, width], .. } = images;
        plane.fill(0.0);
        // The row and the column of each index in a window.
        let mut places = [[0; 2]; LARGEST * LARGEST];
        for (index, place) in places[..kernel * kernel].iter_mut().enumerate() {
            *place = [index / kernel, index % kernel];
        }
        for (line, positions) in positions.chunks_exact(row.len().max(1)).enumerate() {
            gradient.load(first + line * row.len(), row);
            for (column, (position, gradient)) in positions.iter().zip(&*row).enumerate() {
                let [down, across] = places[usize::from(*position)];
                // If all values of a window are −∞, the position may be before the image: it stands for the first pixel then.
                let y = (line * stride + down).saturating_sub(padding).min(height - 1);
                let x = (column * stride + across).saturating_sub(padding).min(width - 1);
                plane[y * width + x] += gradient;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;
    use crate::truth::{distance, numbers, stored, values};

    fn windows(kernel: usize, stride: usize, padding: usize) -> Windows {
        Windows { kernel, stride, padding }
    }

    /// The maxima and the gradient, by Burn's operations or by our kernel.
    fn made(windows: Windows, input: &Tensor<4>, kernels: Kernels) -> [Vec<f64>; 2] {
        let Maxima { values: found, positions } = windows.maxima(input.clone(), kernels);
        let gradient = stored("gradient", found.dims(), input.dtype());
        let gradient = windows.backward(gradient, positions, input.dims(), input.dtype(), kernels);
        assert_eq!((found.dtype(), gradient.dtype()), (input.dtype(), input.dtype()));
        [found, gradient].map(values)
    }

    #[test]
    fn values_and_gradients_are_those_of_burn() {
        let all = [(3, 2, 1), (2, 2, 0), (2, 2, 1), (3, 3, 1), (5, 1, 2), (2, 3, 0), (3, 1, 1), (1, 1, 0)];
        for (kernel, stride, padding) in all {
            for [height, width] in [[1, 1], [2, 3], [7, 7], [12, 40], [33, 16]] {
                if height + 2 * padding < kernel || width + 2 * padding < kernel {
                    continue;
                }
                // Burn rounds each sum of gradients of f16, ours the last one.
                for (dtype, tolerance) in [(DType::F32, 0.0), (DType::BF16, 0.0), (DType::F16, 1e-3)] {
                    let input = stored("input", [2, 3, height, width], dtype);
                    // Whole numbers are often equal: of those the first one counts.
                    for input in [input.clone(), input.round()] {
                        let [[found, gradient], [expected, expected_gradient]] =
                            [Kernels::Cpu, Kernels::Composed]
                                .map(|kernels| made(windows(kernel, stride, padding), &input, kernels));
                        let of = format!("{kernel} {stride} {padding} {height}x{width} {dtype:?}");
                        assert_eq!(found, expected, "{of}");
                        let error = distance(&gradient, &expected_gradient);
                        assert!(error <= tolerance, "{of}: {error}");
                    }
                }
            }
        }
    }

    fn image(values: Vec<f32>, [height, width]: [usize; 2]) -> Tensor<4> {
        Tensor::from_data(TensorData::new(values, [1, 1, height, width]), &Device::flex())
    }

    #[test]
    fn what_is_not_a_number_is_the_greatest() {
        let mut all = numbers(36, "input");
        all[14] = f32::NAN;
        all[15] = f32::INFINITY;
        let maxima = windows(3, 2, 1).maxima(image(all, [6, 6]), Kernels::Cpu);
        // The windows of the second row of outputs read the rows from 1 to 3.
        let found = values(maxima.values);
        assert!(found[4].is_nan() && found[5] == f64::INFINITY, "{found:?}");
        assert_eq!(found.iter().filter(|value| value.is_nan()).count(), 1);
    }

    #[test]
    fn where_all_is_minus_infinity_the_first_pixel_has_the_gradient() {
        let (windows, input) = (windows(3, 2, 1), image(vec![f32::NEG_INFINITY; 16], [4, 4]));
        let Maxima { values: found, positions } = windows.maxima(input.clone(), Kernels::Cpu);
        assert!(values(found).iter().all(|value| *value == f64::NEG_INFINITY));
        let gradient = image(vec![1.0, 2.0, 3.0, 4.0], [2, 2]);
        let gradient = windows.backward(gradient, positions, input.dims(), DType::F32, Kernels::Cpu);
        let mut expected = [0.0; 16];
        for (at, value) in [(0, 1.0), (1, 2.0), (4, 3.0), (5, 4.0)] {
            expected[at] = value;
        }
        assert_eq!(values(gradient), expected);
    }
}

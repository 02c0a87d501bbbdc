use burn_backend::DType;
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{ir::ElemType, prelude::*};

use super::{
    affine::{AffineVectors, ChannelAffine},
    channel_parts::{ChannelPart, Parts},
    channels_last,
    values::{NormGradients, NormInput, NormSums},
};
use crate::{
    image::ImageOrder,
    launch::{Output, addresses, cube, element, vector_width},
    reduce::cube_sum,
    tensor::{contiguous, empty, sizes},
};

/// The gradients of input, weight and shift. `gradient` is that of the output. The gradient of the input overwrites it, if
/// that has the input's format and nobody else holds it.
///
/// Two launches. Where a channel has P > 1 parts, the workspace has 8·C·P bytes.
pub fn normalise_backward<R: CubeRuntime>(norm: NormInput<R>, gradient: CubeTensor<R>) -> NormGradients<R> {
    let order = ImageOrder::of(&norm.input);
    let (norm, gradient) = in_order(order, norm, gradient);
    let made = match order {
        ImageOrder::ChannelsFirst => by_rows(norm, gradient),
        ImageOrder::ChannelsLast => channels_last::backward(norm, gradient),
    };
    NormGradients { input: order.image(made.input), sums: made.sums }
}

/// The images' memory in one order, and contiguous vectors.
fn in_order<R: CubeRuntime>(
    order: ImageOrder,
    norm: NormInput<R>,
    gradient: CubeTensor<R>,
) -> (NormInput<R>, CubeTensor<R>) {
    let NormInput { input, affine, inverse, rectified } = norm;
    let [input, gradient] = [input, gradient].map(|image| order.memory(image));
    (NormInput { input, affine, inverse: contiguous(inverse), rectified }, gradient)
}

fn by_rows<R: CubeRuntime>(norm: NormInput<R>, gradient: CubeTensor<R>) -> NormGradients<R> {
    let backward = Backward::new(norm, gradient);
    let parts = backward.sum_parts();
    if backward.parts.parts == 1 {
        return NormGradients { sums: parts.clone(), input: backward.input_gradient(parts, None) };
    }
    let sums = backward.vectors(1);
    NormGradients { input: backward.input_gradient(parts, Some(sums.clone())), sums }
}

/// The gradients of weight and shift alone.
///
/// One launch, or two where a channel has P > 1 parts. The workspace then has 8·C·P bytes.
pub fn sums<R: CubeRuntime>(norm: NormInput<R>, gradient: CubeTensor<R>) -> NormSums<R> {
    let order = ImageOrder::of(&norm.input);
    let (norm, gradient) = in_order(order, norm, gradient);
    if order == ImageOrder::ChannelsLast {
        return channels_last::sums(norm, gradient);
    }
    let backward = Backward::new(norm, gradient);
    let parts = backward.sum_parts();
    if backward.parts.parts == 1 { parts } else { backward.joined(parts) }
}

/// The gradient of the input from given `sums`: those of [`sums()`], or those of all replicas scaled to the n values of a
/// channel of this one. It overwrites `gradient`, that of the output, if that has the input's format and nobody else holds it.
///
/// One launch.
pub fn input_gradient<R: CubeRuntime>(
    norm: NormInput<R>,
    gradient: CubeTensor<R>,
    sums: NormSums<R>,
) -> CubeTensor<R> {
    let NormSums { weight, shift } = sums;
    let [weight, shift] = [weight, shift].map(contiguous);
    let sums = NormSums { weight, shift };
    let order = ImageOrder::of(&norm.input);
    let (norm, gradient) = in_order(order, norm, gradient);
    if order == ImageOrder::ChannelsLast {
        return order.image(channels_last::input_gradient(norm, gradient, sums));
    }
    let mut backward = Backward::new(norm, gradient);
    backward.sums_of = 1;
    backward.input_gradient(sums, None)
}

/// A backward pass over images `[B, C, H, W]`.
struct Backward<R: CubeRuntime> {
    norm: NormInput<R>,
    gradient: CubeTensor<R>,
    width: usize,
    parts: Parts,
    /// Parts of each channel's sums that the input's gradient takes.
    sums_of: usize,
}

impl<R: CubeRuntime> Backward<R> {
    fn new(norm: NormInput<R>, gradient: CubeTensor<R>) -> Self {
        let [_, _, height, columns] = sizes(&norm.input);
        let width = vector_width(height * columns, &[norm.input.dtype, gradient.dtype]);
        let parts = Parts::new(&norm.input, width);
        Self { norm, gradient, width, parts, sums_of: parts.parts }
    }

    fn vectors(&self, parts: usize) -> NormSums<R> {
        let [weight, shift] =
            [(); 2].map(|()| empty(&self.norm.input, &[self.parts.channels * parts], DType::F32));
        NormSums { weight, shift }
    }

    fn formats(&self) -> [ElemType; 2] {
        [element(&self.norm.input), element(&self.gradient)]
    }

    /// The sums of each part, `[C, P]`.
    fn sum_parts(&self) -> NormSums<R> {
        let NormInput { input, affine, inverse, rectified } = self.norm.clone();
        let sums = self.vectors(self.parts.parts);
        // SAFETY: the parts cover the tensors, and each writes its own element of both outputs.
        unsafe {
            part_sums::launch_unchecked::<R>(
                &self.gradient.client,
                self.parts.cubes(),
                cube(),
                addresses(&[&self.gradient, &input]),
                self.width,
                self.gradient.clone().into_buffer_arg(),
                input.into_buffer_arg(),
                affine.argument(),
                inverse.into_buffer_arg(),
                sums.argument(),
                self.parts.argument(),
                rectified,
                self.formats(),
            );
        }
        sums
    }

    /// The sums of the channels from those of their parts.
    fn joined(&self, parts: NormSums<R>) -> NormSums<R> {
        let sums = self.vectors(1);
        let client = &self.gradient.client;
        // SAFETY: there are as many elements as parts for each cube in the first buffers, and one in the others.
        unsafe {
            joined_sums::launch_unchecked::<R>(
                client,
                CubeCount::new_1d(self.parts.channels as u32),
                // One plane.
                CubeDim::new_1d(client.properties().hardware.plane_size_max),
                parts.argument(),
                sums.argument(),
                self.parts.parts,
            );
        }
        sums
    }

    /// The gradient of the input. The kernel adds the `parts` of the sums, and writes them to `sums`.
    fn input_gradient(self, parts: NormSums<R>, sums: Option<NormSums<R>>) -> CubeTensor<R> {
        let formats = self.formats();
        let Self { norm, gradient, width, parts: shape, sums_of } = self;
        let NormInput { input, affine, inverse, rectified } = norm;
        let output = Output::over(&gradient, input.dtype);
        let [batch, _, height, columns] = sizes(&input);
        // SAFETY: the parts cover the tensors, each writes its own elements, and the sums have `sums_of` elements a channel.
        unsafe {
            write_input_gradient::launch_unchecked::<R>(
                &gradient.client,
                shape.cubes(),
                cube(),
                addresses(&[&gradient, &input]),
                width,
                gradient.clone().into_buffer_arg(),
                output.argument,
                input.into_buffer_arg(),
                affine.argument(),
                inverse.into_buffer_arg(),
                parts.argument(),
                sums.as_ref().map(NormSums::argument).into(),
                shape.argument(),
                sums_of,
                sums_of == 1,
                (batch * height * columns) as f32,
                rectified,
                formats,
            );
        }
        output.tensor
    }
}

impl<R: CubeRuntime> NormSums<R> {
    fn argument(&self) -> SumVectorsLaunch<R> {
        SumVectorsLaunch::new(self.weight.clone().into_buffer_arg(), self.shift.clone().into_buffer_arg())
    }
}

/// [`NormSums`] on the device.
#[derive(CubeType, CubeLaunch)]
struct SumVectors {
    weight: Box<[f32]>,
    shift: Box<[f32]>,
}

/// The gradient before the ReLU.
#[cube]
fn masked<G: Float, N: Size>(
    gradient: Vector<G, N>,
    values: Vector<f32, N>,
    affine: &ChannelAffine,
    #[comptime] rectified: bool,
) -> Vector<f32, N> {
    let gradient = Vector::<f32, N>::cast_from(gradient);
    if comptime!(rectified) {
        let zero = Vector::new(0.0f32);
        select_many(affine.normed::<N>(values).greater_than(&zero), gradient, zero)
    } else {
        gradient
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn part_sums<I: Float, G: Float, N: Size>(
    gradient: &[Vector<G, N>],
    input: &[Vector<I, N>],
    affine: AffineVectors,
    inverse: &[f32],
    mut sums: SumVectors,
    part: ChannelPart,
    #[comptime] rectified: bool,
    #[define(I, G)] _formats: [ElemType; 2],
) {
    let channel = CUBE_POS_X as usize;
    let affine = affine.of_channel(channel);
    let mut weight = Vector::<f32, N>::new(0.0f32);
    let mut shift = Vector::<f32, N>::new(0.0f32);
    let end = part.end();
    let mut vector = part.begin() + UNIT_POS as usize;
    while vector < end {
        let at = part.place(vector);
        let values = Vector::<f32, N>::cast_from(input[at]);
        let masked = masked::<G, N>(gradient[at], values, &affine, rectified);
        shift += masked;
        weight += masked * (values - Vector::new(affine.mean));
        vector += CUBE_DIM as usize;
    }
    let mut of_weight = 0.0f32;
    let mut of_shift = 0.0f32;
    #[unroll]
    for i in 0..N::value() {
        of_weight += weight.extract(i);
        of_shift += shift.extract(i);
    }
    let of_weight = cube_sum(of_weight) * inverse[channel];
    let of_shift = cube_sum(of_shift);
    if UNIT_POS == 0 {
        let at = (CUBE_POS_X * CUBE_COUNT_Y + CUBE_POS_Y) as usize;
        sums.weight[at] = of_weight;
        sums.shift[at] = of_shift;
    }
}

/// The sum of a channel over its parts, in all threads of the cube.
#[cube]
fn over_parts(of_parts: &[f32], channel: usize, parts: usize) -> f32 {
    let mut sum = 0.0f32;
    let mut at = UNIT_POS as usize;
    while at < parts {
        sum += of_parts[channel * parts + at];
        at += CUBE_DIM as usize;
    }
    cube_sum(sum)
}

/// The sum of a channel, which is there already if it is `joined`.
#[cube]
fn of_channel(of_parts: &[f32], channel: usize, parts: usize, #[comptime] joined: bool) -> f32 {
    if comptime!(joined) { of_parts[channel] } else { over_parts(of_parts, channel, parts) }
}

#[cube(launch_unchecked)]
fn joined_sums(of_parts: SumVectors, mut sums: SumVectors, parts: usize) {
    let channel = CUBE_POS_X as usize;
    let weight = over_parts(&of_parts.weight, channel, parts);
    let shift = over_parts(&of_parts.shift, channel, parts);
    if UNIT_POS == 0 {
        sums.weight[channel] = weight;
        sums.shift[channel] = shift;
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn write_input_gradient<I: Float, G: Float, N: Size>(
    gradient: &[Vector<G, N>],
    output: &mut [Vector<I, N>],
    input: &[Vector<I, N>],
    affine: AffineVectors,
    inverse: &[f32],
    of_parts: SumVectors,
    sums: ComptimeOption<SumVectors>,
    part: ChannelPart,
    parts: usize,
    #[comptime] joined: bool,
    count: f32,
    #[comptime] rectified: bool,
    #[define(I, G)] _formats: [ElemType; 2],
) {
    let channel = CUBE_POS_X as usize;
    let affine = affine.of_channel(channel);
    let weight = of_channel(&of_parts.weight, channel, parts, joined);
    let shift = of_channel(&of_parts.shift, channel, parts, joined);
    #[comptime]
    if let ComptimeOption::Some(mut sums) = sums {
        if UNIT_POS == 0 && CUBE_POS_Y == 0 {
            sums.weight[channel] = weight;
            sums.shift[channel] = shift;
        }
    }
    let slope = inverse[channel] * weight / count;
    let constant = shift / count;
    let end = part.end();
    let mut vector = part.begin() + UNIT_POS as usize;
    while vector < end {
        let at = part.place(vector);
        let values = Vector::<f32, N>::cast_from(input[at]);
        let masked = masked::<G, N>(gradient[at], values, &affine, rectified);
        let deviations = values - Vector::new(affine.mean);
        let result = masked - Vector::new(constant) - deviations * Vector::new(slope);
        output[at] = Vector::cast_from(result * Vector::new(affine.scale));
        vector += CUBE_DIM as usize;
    }
}

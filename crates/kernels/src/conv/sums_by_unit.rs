//! The gradient of the kernels of a convolution by the matrix unit of the processor: for each element of a kernel, the sum over all pixels
//! of its input times the output's gradient.
//!
//! The inputs of a block of pixels are packed for the unit element by element of the kernels. So the matrix of all inputs of all pixels never
//! exists.

use std::ops::Range;

use burn_backend::DType;
use oomph_bf16::{SIDE, Vectors};
use oomph_core::{Account, charge};

use super::product::ConvSizes;
use crate::{
    matrix_unit::{Summands, UnitElement, UnitSums, parts_of, unit_for},
    window::{Axis, PixelRun},
};

/// Pixels that are summed at once, at most.
const PIXELS: usize = 512;

/// The sums over pixels.
pub(super) struct SumsByUnit {
    pub(super) sums: UnitSums<1>,
    sizes: ConvSizes,
    /// Images that are summed at once.
    images: usize,
    /// The pixels of an image, in parts.
    parts: Vec<ImagePart>,
}

/// Pixels of an image that are summed at once.
struct ImagePart {
    count: usize,
    /// Where they lie in the input, for each tap. The others read zeros.
    inputs: Vec<Vec<PixelRun>>,
    /// Where they lie in the output.
    output: [PixelRun; 1],
}

impl SumsByUnit {
    /// The gradient of a convolution with these axes, of numbers of a format. `None` if the unit cannot multiply them, or if
    /// vectors are faster.
    pub(super) fn where_it_pays(sizes: ConvSizes, axes: &[Axis; 2], dtype: DType) -> Option<Self> {
        let [features, outputs] = [sizes.channels[0] * sizes.taps(), sizes.channels[1]];
        let unit = unit_for(dtype, dtype)?;
        // Each number must be multiplied often enough to make up for packing it.
        let often = match (dtype, sizes.taps()) {
            (DType::BF16, 1) => 0,
            (DType::BF16, _) => 48,
            (_, 1) => 96,
            _ => 192,
        };
        if outputs * features < often * (outputs + features) {
            return None;
        }
        let parts = charge(Account::Host, || parts(sizes, axes));
        let of_part = parts.iter().map(|part| part.count).max().unwrap_or(0);
        let most = (PIXELS / of_part.max(1)).max(1);
        // The blocks are as even as possible.
        let images =
            if parts.len() == 1 { sizes.batch.div_ceil(sizes.batch.div_ceil(most).max(1)).max(1) } else { 1 };
        let sums =
            UnitSums { unit, outputs, features: [features], inner: images * of_part, parts: parts_of(dtype) };
        Some(Self { sums, sizes, images, parts })
    }

    /// The gradient, `[C_out, C_in, k, k]`.
    pub(super) fn run<E: UnitElement>(&self, source: &[E], gradient: &[E]) -> Vec<f32> {
        let ConvSizes { channels: [input, output], input: of_input, output: of_output, .. } = self.sizes;
        let planes = |elements, channels, [height, width]: [usize; 2]| Planes {
            elements,
            channels,
            pixels: height * width,
        };
        let (input, output) = (planes(source, input, of_input), planes(gradient, output, of_output));
        self.sums.sum(&PixelsToSum { all: self, input, output }, &mut [])
    }
}

/// The pixels of an image, in parts that are as even as possible.
fn parts(sizes: ConvSizes, axes: &[Axis; 2]) -> Vec<ImagePart> {
    let pixels = sizes.output[0] * sizes.output[1];
    let of_each = pixels.div_ceil(pixels.div_ceil(PIXELS).max(1)).next_multiple_of(SIDE).min(PIXELS);
    let [kernel_height, kernel_width] = sizes.kernel;
    let part = |first: usize| {
        let pixels = first..pixels.min(first + of_each);
        let output = PixelRun { at: 0, length: pixels.len(), source: first, step: 1 };
        let inputs =
            (0..kernel_height * kernel_width).map(|tap| match axes.iter().all(Axis::reads_as_it_lies) {
                true => vec![output],
                false => lines(&pixels, sizes, axes, [tap / kernel_width, tap % kernel_width]),
            });
        ImagePart { count: pixels.len(), inputs: inputs.collect(), output: [output] }
    };
    (0..pixels).step_by(of_each.max(1)).map(part).collect()
}

/// The inputs of a tap of some pixels of an image, line by line.
fn lines(pixels: &Range<usize>, sizes: ConvSizes, axes: &[Axis; 2], tap: [usize; 2]) -> Vec<PixelRun> {
    let (width, of_input) = (sizes.output[1].max(1), sizes.input[1]);
    let run = |row: usize| {
        let line = row * width;
        let columns = pixels.start.max(line) - line..pixels.end.min(line + width) - line;
        let at = line + columns.start - pixels.start;
        PixelRun::read(axes, of_input, [row, at], columns, tap)
    };
    (pixels.start / width..pixels.end.div_ceil(width)).filter_map(run).collect()
}

/// The channels of some images.
struct Planes<'a, E> {
    elements: &'a [E],
    channels: usize,
    /// Pixels of an image.
    pixels: usize,
}

impl<E: UnitElement> Planes<'_, E> {
    /// Gives some pixels of channels, at most as many as a strip has: a vector of each. `which` are the channels, each with where its pixels
    /// lie in every image.
    fn vectors<'b>(
        &self,
        block: &Block<'_>,
        which: impl Iterator<Item = (usize, &'b [PixelRun])>,
        pack: impl FnOnce(Vectors<'_, E>),
    ) {
        let mut gathered = [[E::ZERO; PIXELS]; SIDE];
        let mut channels = 0;
        for ((channel, runs), to) in which.zip(&mut gathered) {
            for (image, to) in block.images.clone().zip(to.chunks_mut(block.part.count)) {
                let plane = &self.elements[(image * self.channels + channel) * self.pixels..];
                runs.iter().for_each(|run| run.copy(plane, to));
            }
            channels += 1;
        }
        let all = Vectors::along(gathered.as_flattened(), PIXELS, SIDE);
        pack(all.some_of(0..channels, 0..block.inner()));
    }

    /// As [`vectors`](Self::vectors), of channels that follow each other. They are not copied if their pixels are contiguous.
    fn channels(
        &self,
        block: &Block<'_>,
        runs: &[PixelRun],
        channels: Range<usize>,
        pack: impl FnOnce(Vectors<'_, E>),
    ) {
        if let [PixelRun { length, source, step: 1, .. }] = *runs
            && length == block.inner()
        {
            let image = &self.elements[block.images.start * self.channels * self.pixels..];
            let all = Vectors::along(image, self.pixels, self.channels);
            return pack(all.some_of(channels, source..source + length));
        }
        self.vectors(block, channels.map(|channel| (channel, runs)), pack);
    }
}

/// The same pixels of some images.
struct Block<'a> {
    images: Range<usize>,
    part: &'a ImagePart,
}

impl Block<'_> {
    fn inner(&self) -> usize {
        self.images.len() * self.part.count
    }
}

/// Inputs and gradients.
struct PixelsToSum<'a, E> {
    all: &'a SumsByUnit,
    input: Planes<'a, E>,
    output: Planes<'a, E>,
}

impl<E> PixelsToSum<'_, E> {
    /// A block; `None` if there are no pixels.
    fn block(&self, index: usize) -> Option<Block<'_>> {
        let SumsByUnit { images, parts, sizes, .. } = self.all;
        let first = index / parts.len().max(1) * images;
        let part = parts.get(index % parts.len().max(1))?;
        Some(Block { images: first..sizes.batch.min(first + images), part })
    }
}

impl<E: UnitElement> Summands<E> for PixelsToSum<'_, E> {
    fn blocks(&self) -> usize {
        self.all.sizes.batch.div_ceil(self.all.images) * self.all.parts.len()
    }

    fn inner(&self, block: usize) -> usize {
        self.block(block).map_or(0, |block| block.inner())
    }

    fn outputs(&self, block: usize, outputs: Range<usize>, pack: impl FnOnce(Vectors<'_, E>)) {
        let Some(block) = self.block(block) else { return };
        self.output.channels(&block, &block.part.output, outputs, pack);
    }

    /// A feature is a tap of a channel.
    fn features(
        &self,
        block: usize,
        _matrix: usize,
        features: Range<usize>,
        pack: impl FnOnce(Vectors<'_, E>),
    ) {
        let Some(block) = self.block(block) else { return };
        match block.part.inputs.as_slice() {
            [runs] => self.input.channels(&block, runs, features, pack),
            inputs => {
                let taps = inputs.len();
                let which = features.map(|feature| (feature / taps, inputs[feature % taps].as_slice()));
                self.input.vectors(&block, which, pack);
            }
        }
    }
}

use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use super::super::affine::Affine;
use crate::{
    channel_sums::{THREADS, Work, across},
    tensor::{contiguous, sizes},
};

/// How an image `[B, H, W, C]` is parted among cubes: each has some channels of some pixels.
#[derive(Clone, Copy)]
pub(super) struct Tiles {
    pub(super) channels: usize,
    /// Values of each channel.
    pub(super) pixels: usize,
    /// Vectors of a pixel.
    columns: usize,
    /// Threads of a row.
    across: usize,
    /// Pixels of a part.
    of_each: usize,
    /// Parts of the pixels.
    pub(super) parts: usize,
}

impl Tiles {
    /// For vectors of `width` channels.
    pub(super) fn new<R: CubeRuntime>(memory: &CubeTensor<R>, width: usize, work: Work) -> Self {
        let [batch, height, line, channels] = sizes(memory);
        let (pixels, columns) = (batch * height * line, channels / width);
        let of_each = work.pixels_of_part(columns, pixels);
        Self {
            channels,
            pixels,
            columns,
            across: across(columns),
            of_each,
            parts: pixels.div_ceil(of_each).max(1),
        }
    }

    pub(super) fn cubes(self) -> CubeCount {
        CubeCount::new_2d(self.columns.div_ceil(self.across) as u32, self.parts as u32)
    }

    /// The cubes that join the parts.
    pub(super) fn cubes_of_channels(self) -> CubeCount {
        CubeCount::new_1d(self.columns.div_ceil(self.across) as u32)
    }

    pub(super) fn cube(self) -> CubeDim {
        CubeDim::new_2d(self.across as u32, THREADS / self.across as u32)
    }

    pub(super) fn argument<R: CubeRuntime>(self) -> TileLaunch<R> {
        TileLaunch::new(self.columns, self.pixels, self.of_each)
    }
}

/// The tile of this cube: the cube's column has the channels, and its row the pixels.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Tile {
    columns: usize,
    pixels: usize,
    of_each: usize,
}

#[cube]
impl Tile {
    /// Whether the thread has channels.
    pub(super) fn is_inside(&self) -> bool {
        ((CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize) < self.columns
    }

    /// The vector of channels that the thread has, or the last one.
    pub(super) fn column(&self) -> usize {
        min((CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize, self.columns - 1)
    }

    /// The first pixel of the thread.
    pub(super) fn begin(&self) -> usize {
        CUBE_POS_Y as usize * self.of_each + UNIT_POS_Y as usize
    }

    /// The end of the thread's pixels. It is 0 for threads without channels.
    pub(super) fn end(&self) -> usize {
        let end = min((CUBE_POS_Y as usize + 1) * self.of_each, self.pixels);
        select(self.is_inside(), end, 0usize)
    }

    /// Pixels of a part.
    pub(super) fn pixels_of(&self, part: usize) -> f32 {
        f32::cast_from(min(self.of_each, self.pixels - part * self.of_each) as u32)
    }

    /// All pixels.
    pub(super) fn all_pixels(&self) -> f32 {
        f32::cast_from(self.pixels as u32)
    }

    /// The place of the thread's channels of a pixel, or of a part.
    pub(super) fn place(&self, row: usize) -> usize {
        row * self.columns + self.column()
    }
}

/// The sum over the rows of the cube, in each of its threads, in a fixed order. All threads call it.
#[cube]
pub(super) fn over_rows<N: Size>(value: Vector<f32, N>) -> Vector<f32, N> {
    let mut values = Shared::<[Vector<f32, N>]>::new_slice(comptime!(THREADS as usize));
    // An earlier sum may have the same memory.
    sync_cube();
    values[UNIT_POS as usize] = value;
    sync_cube();
    let mut sum = Vector::<f32, N>::new(0.0f32);
    for row in 0..CUBE_DIM_Y {
        sum += values[(row * CUBE_DIM_X + UNIT_POS_X) as usize];
    }
    sum
}

/// The sum over all parts, whose vectors are `[P, C]`, in each of the cube's threads.
#[cube]
pub(super) fn over_parts<N: Size>(of_parts: &[Vector<f32, N>], tile: &Tile, parts: usize) -> Vector<f32, N> {
    let mut sum = Vector::<f32, N>::new(0.0f32);
    let mut part = UNIT_POS_Y as usize;
    while part < parts {
        sum += of_parts[tile.place(part)];
        part += CUBE_DIM_Y as usize;
    }
    over_rows::<N>(sum)
}

/// [`Affine`] on the device.
#[derive(CubeType, CubeLaunch)]
pub(super) struct AffineColumns<N: Size> {
    mean: Box<[Vector<f32, N>]>,
    scale: Box<[Vector<f32, N>]>,
    shift: Box<[Vector<f32, N>]>,
}

impl<R: CubeRuntime> Affine<R> {
    pub(super) fn columns<N: Size>(self) -> AffineColumnsLaunch<N, R> {
        let [mean, scale, shift] =
            [self.mean, self.scale, self.shift].map(|vector| contiguous(vector).into_buffer_arg());
        AffineColumnsLaunch::new(mean, scale, shift)
    }
}

#[cube]
impl<N: Size> AffineColumns<N> {
    pub(super) fn of_column(&self, column: usize) -> ColumnAffine<N> {
        ColumnAffine::<N> { mean: self.mean[column], scale: self.scale[column], shift: self.shift[column] }
    }
}

/// [`Affine`] for the channels of a vector.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(super) struct ColumnAffine<N: Size> {
    pub(super) mean: Vector<f32, N>,
    pub(super) scale: Vector<f32, N>,
    shift: Vector<f32, N>,
}

#[cube]
impl<N: Size> ColumnAffine<N> {
    pub(super) fn normed(&self, values: Vector<f32, N>) -> Vector<f32, N> {
        (values - self.mean) * self.scale + self.shift
    }
}

//! Packs the points of kernels.

use std::ops::Range;

use burn_backend::DType;
use oomph_bf16::{Line, MatrixUnit, POINTS, Rounded, SIDE, Vectors};

use crate::{
    conv::{
        pieces::lanes,
        winograd::{TAPS, kernel_points},
    },
    simd::SimdLoops,
    stored_float::{StoredFloats, round},
};

/// Channels that are transformed at once.
const CHANNELS: usize = 16;

/// Packs the points of the kernels of some rows, at most 32, for all channels: a strip for each point.
pub(super) struct KernelPacking<'a> {
    pub(super) unit: MatrixUnit,
    /// In 16 bits, or in 32 to be rounded.
    pub(super) weights: StoredFloats<'a>,
    /// Elements between the weights of two rows, and of two channels.
    pub(super) apart: [usize; 2],
    pub(super) channels: usize,
    pub(super) rows: Range<usize>,
    /// Whether kernels are rotated by 180°.
    pub(super) turned: bool,
    pub(super) to: &'a mut [Line],
}

impl SimdLoops for KernelPacking<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let mut points = [[[0.0; SIDE]; SIDE]; POINTS];
        let count = self.rows.len();
        for first in (0..self.channels).step_by(SIDE) {
            for (index, row) in self.rows.clone().enumerate() {
                for half in (0..SIDE).step_by(CHANNELS) {
                    let made = self.points(row, first + half);
                    for (points, made) in points.iter_mut().zip(&made) {
                        points[index][half..half + CHANNELS].copy_from_slice(made);
                    }
                }
            }
            for (points, to) in points.iter().zip(self.to.chunks_exact_mut(self.channels)) {
                let rows = Vectors::along(Rounded::all(points.as_flattened()), SIDE, SIDE);
                self.unit.pack_left(rows.some_of(0..count, 0..SIDE), &mut to[first..first + SIDE]);
            }
        }
    }
}

impl KernelPacking<'_> {
    /// The points of the kernels of a row for some channels.
    #[inline(always)]
    fn points(&self, row: usize, first: usize) -> [[f32; CHANNELS]; POINTS] {
        let [of_row, of_channel] = self.apart;
        let mut kernels = [[0.0; CHANNELS]; TAPS];
        let at = |index: usize| row * of_row + (first + index) * of_channel;
        match self.weights {
            StoredFloats::F32(weights) => {
                for index in 0..CHANNELS {
                    let kernel = lanes::<_, TAPS>(weights, at(index));
                    kernels.iter_mut().zip(kernel).for_each(|(to, weight)| to[index] = *weight);
                }
                round(kernels.as_flattened_mut(), DType::BF16);
            }
            StoredFloats::Bf16(weights) => {
                for index in 0..CHANNELS {
                    for (to, weight) in kernels.iter_mut().zip(lanes::<_, TAPS>(weights, at(index))) {
                        // What is not a number needs no quiet bit here.
                        to[index] = f32::from_bits(u32::from(weight.to_bits()) << 16);
                    }
                }
            }
            // The unit multiplies no such numbers.
            StoredFloats::F16(_) => {}
        }
        match self.turned {
            false => kernel_points(|tap| &kernels[tap]),
            true => kernel_points(|tap| &kernels[TAPS - 1 - tap]),
        }
    }
}

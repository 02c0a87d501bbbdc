//! Kernels that become of the products of their points.

use super::blocking::TAPS;
use crate::{
    conv::pieces::{difference, lanes, sum},
    interleave::interleave,
};

/// Adds what kernels side by side become of their products to `weights`, as many at once as a register has numbers. From one point to the
/// next there are `apart` products. Kernels behind whole registers are left out.
#[inline(always)]
pub(in crate::conv) fn add_kernels<const LANES: usize>(products: &[f32], apart: usize, weights: &mut [f32]) {
    let mut kernels = [0.0; MOST_LANES * TAPS];
    for (index, weights) in weights.chunks_exact_mut(LANES * TAPS).enumerate() {
        let mut down = [[[0.0; LANES]; 4]; 3];
        for column in 0..4 {
            let point =
                |row: usize| lanes::<f32, LANES>(products, (4 * row + column) * apart + index * LANES);
            let made = three_of(point(0), point(1), point(2), point(3));
            for (down, made) in down.iter_mut().zip(&made) {
                down[column] = *made;
            }
        }
        let mut taps = [[[0.0; LANES]; 3]; 3];
        for (taps, [first, second, third, fourth]) in taps.iter_mut().zip(&down) {
            *taps = three_of(first, second, third, fourth);
        }
        let kernels = &mut kernels[..LANES * TAPS];
        interleave(TAPS, |tap| &taps[tap / 3][tap % 3], 0..LANES, kernels, TAPS);
        for (weight, kernel) in weights.iter_mut().zip(&*kernels) {
            *weight += kernel;
        }
    }
}

/// Numbers of a register, at most.
const MOST_LANES: usize = 16;

/// Three elements of kernels, of four points each.
#[inline(always)]
fn three_of<const COUNT: usize>(
    first: &[f32; COUNT],
    second: &[f32; COUNT],
    third: &[f32; COUNT],
    fourth: &[f32; COUNT],
) -> [[f32; COUNT]; 3] {
    let (mut even, mut odd) = (sum(second, third), difference(second, third));
    even.iter_mut().for_each(|number| *number *= 0.5);
    odd.iter_mut().for_each(|number| *number *= 0.5);
    [sum(first, &even), odd, sum(&even, fourth)]
}

use std::ops::Range;

/// The cosines and then the sines of each of the positions, `[T, D]`: the angle of position t and pair i of D/2 is t · base^(−2i/D) (Su et al.
/// 2021, <https://arxiv.org/abs/2104.09864>). Element i of a head and element i + D/2 are a pair, as in Llama.
pub fn rotary_angles(positions: Range<usize>, size: usize, base: f32) -> Vec<f32> {
    let pairs = size / 2;
    let mut angles = vec![0.0; positions.len() * size];
    for (position, row) in positions.zip(angles.chunks_exact_mut(size.max(1))) {
        let (cosines, sines) = row.split_at_mut(pairs);
        for (index, (cosine, sine)) in cosines.iter_mut().zip(sines).enumerate() {
            let frequency = f64::from(base).powf(-2.0 * index as f64 / size as f64);
            let (of_sine, of_cosine) = (position as f64 * frequency).sin_cos();
            (*cosine, *sine) = (of_cosine as f32, of_sine as f32);
        }
    }
    angles
}

/// Turns a row of a head by the angles of its position, or back if `BACK`.
#[inline(always)]
pub(super) fn rotate<const BACK: bool>(row: &mut [f32], angles: &[f32]) {
    let pairs = row.len() / 2;
    let (first, second) = row.split_at_mut(pairs);
    let (cosines, sines) = angles.split_at(pairs);
    for (((first, second), cosine), sine) in first.iter_mut().zip(second).zip(cosines).zip(sines) {
        let sine = if BACK { -sine } else { *sine };
        (*first, *second) = (*first * cosine - *second * sine, *second * cosine + *first * sine);
    }
}

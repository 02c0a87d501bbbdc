//! How the cubes of a card share the sums of a weight's gradient. A build without CUDA knows it too, to plan.

/// Outputs, and weights of an output, whose sums a cube computes.
pub(crate) const TILE: usize = 64;

/// Cubes that fill a large card. It is the same on all cards, so that a plan knows the partial sums.
const CUBES: usize = 512;

/// Positions that are worth a cube.
const LEAST_POSITIONS: usize = 1024;

/// How many partial sums each element of a weight `[C_out, C_in, k, k]` has, for a gradient of `positions` = B·h·w.
pub fn partial_sums(weight: [usize; 4], positions: usize) -> usize {
    let [outputs, channels, height, width] = weight;
    let tiles = outputs.div_ceil(TILE) * (channels * height * width).div_ceil(TILE);
    (CUBES / tiles.max(1)).min(positions.div_ceil(LEAST_POSITIONS)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_weights_of_many_positions_are_shared_by_many_cubes() {
        // 9 tiles, and enough positions for all cubes; then too few; then as many tiles as cubes.
        assert_eq!(partial_sums([64, 64, 3, 3], 128 << 10), 56);
        assert_eq!(partial_sums([64, 64, 3, 3], 3000), 3);
        assert_eq!(partial_sums([512, 512, 3, 3], 128 << 10), 1);
        assert_eq!(partial_sums([1, 1, 1, 1], 1), 1);
    }
}

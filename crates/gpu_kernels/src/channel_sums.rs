//! How the cubes of a card share sums over the pixels of an image whose channels lie last. A build without CUDA knows it too, to
//! plan.

/// Threads of a cube.
pub(crate) const THREADS: u32 = 256;

/// Bytes that a thread reads at once.
const VECTOR_BYTES: usize = 16;

/// Threads of a row, at most: together they read a line of a GPU's cache.
const ACROSS: usize = 8;

/// Pixels that make a thread worth its cost.
const LEAST: usize = 4;

/// How work is parted among cubes. The numbers are the same on all cards, so that sums have one order and a plan knows them.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    /// About how many cubes share a large image.
    pub(crate) cubes: usize,
    /// The most pixels of a thread for which all pixels are one part.
    pub(crate) alone: usize,
}

/// Sums over pixels. The partial sums are few enough to be read by every cube, and small images have none, which saves a
/// launch.
pub(crate) const SUMMING: Work = Work { cubes: 256, alone: 16 };

impl Work {
    /// Pixels of a part, for pixels of `columns` vectors.
    pub(crate) fn pixels_of_part(self, columns: usize, pixels: usize) -> usize {
        let rows = THREADS as usize / across(columns);
        let parts = match pixels <= self.alone * rows {
            true => 1,
            false => (self.cubes / columns.div_ceil(ACROSS)).min(pixels / (LEAST * rows)).max(1),
        };
        pixels.div_ceil(parts).max(1)
    }
}

/// Threads of a row, for pixels of `columns` vectors.
pub(crate) fn across(columns: usize) -> usize {
    columns.next_power_of_two().min(ACROSS)
}

/// Elements that are read at once: as many of `bytes` bytes as fit into 16 bytes and divide `length`.
pub(crate) fn elements_at_once(length: usize, bytes: usize) -> usize {
    let mut width = VECTOR_BYTES / bytes;
    while !length.is_multiple_of(width) {
        width /= 2;
    }
    width
}

/// The partial sums, of 32 bits, of the moments or gradients of each channel of an image `[B, C, H, W]`. `bytes` are those of an
/// element, at most.
pub fn channel_partial_sums([batch, channels, height, width]: [usize; 4], bytes: usize) -> usize {
    let (columns, pixels) = (channels / elements_at_once(channels, bytes), batch * height * width);
    let parts = pixels.div_ceil(SUMMING.pixels_of_part(columns, pixels));
    if parts > 1 { 2 * channels * parts } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_images_are_shared_by_all_cubes() {
        // 16 vectors are two rows of threads: 128 parts.
        assert_eq!(channel_partial_sums([128, 64, 32, 32], 4), 2 * 64 * 128);
        // 64 channels of 16 bits are one.
        assert_eq!(channel_partial_sums([128, 64, 32, 32], 2), 2 * 64 * 256);
        // 512 pixels, 16 for each thread.
        assert_eq!(channel_partial_sums([32, 512, 4, 4], 4), 0);
        assert_eq!(channel_partial_sums([1, 3, 1, 1], 4), 0);
    }
}

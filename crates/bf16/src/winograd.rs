use half::bf16;

use crate::{
    Line, MatrixUnit,
    line::{OF_TILE, SIDE},
};

/// Points of a window of 4×4 pixels.
pub const POINTS: usize = 16;

/// Rounds what minimal filters F(2×2, 3×3) multiply, and packs it for dot products; makes pixels of their products. (Lavin and Gray 2015,
/// <https://arxiv.org/abs/1509.09308>.)
///
/// A *patch* of 2×2 pixels of the target reads a *window* of 4×4 pixels of the source, which begins a pixel above and left of it. A window
/// becomes 16 points: its rows `r` become `r0 − r2`, `r1 + r2`, `r2 − r1` and `r1 − r3`, and then its columns do.
#[derive(Clone, Copy, Debug)]
pub struct WinogradUnit {
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    never: std::convert::Infallible,
    /// Only [`MatrixUnit::for_winograd`] makes one.
    _private: (),
}

/// A line of pixels: the two of each patch, and of one patch before the first and one behind the last.
pub type PairLine<'a> = &'a [[bf16; 2]];

/// The four lines that windows read, from the one above their patches on.
pub type WindowLines<'a> = [PairLine<'a>; 4];

/// Which of 16 patches have a neighbour left of them in the image, and which right of them: a bit for each, the lowest for the first.
pub type Neighbours = [u16; 2];

impl MatrixUnit {
    /// What packs points: dot products. `None` where this unit has tiles, which multiply faster than points are made.
    pub fn for_winograd(self) -> Option<WinogradUnit> {
        if self.has_tiles() {
            return None;
        }
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        return Some(WinogradUnit { _private: () });
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        None
    }
}

impl WinogradUnit {
    /// Packs the points of the windows of two channels. Channels are the inner index, and patches are columns: those of a strip have
    /// `of_strip` lines. `to` begins with the channels' line of the first strip for the first point, and `of_point` lines further is that
    /// for the next point. `neighbours` has each 16 patches.
    ///
    /// # Panics
    /// Panics unless there are these lines, and pixels of all patches.
    pub fn pack_channels(
        self,
        channels: [WindowLines<'_>; 2],
        neighbours: &[Neighbours],
        to: &mut [Line],
        [of_strip, of_point]: [usize; 2],
    ) {
        let Some(last) = neighbours.len().checked_sub(1) else { return };
        assert_pairs(channels.as_flattened(), neighbours.len());
        assert!((POINTS - 1) * of_point + place(last, of_strip) < to.len(), "there are the lines of all points");
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        // SAFETY: `for_winograd` found the instructions. Pixels and lines are there, as asserted above.
        unsafe {
            crate::points::pack_channels(channels, neighbours, to, [of_strip, of_point]);
        }
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        match self.never {}
    }

    /// Packs the points of the windows of a channel. Patches are the inner index, 32 in a line, and each 32 lines further are the next ones.
    /// `to` begins with the channel's line for the first point, and `of_point` lines further is that for the next point. For a right matrix
    /// lines must be [turned](Self::turn) then. `neighbours` has each 16 patches, of whole lines.
    ///
    /// # Panics
    /// As [`pack_channels`](Self::pack_channels).
    pub fn pack_windows(
        self,
        channel: WindowLines<'_>,
        neighbours: &[Neighbours],
        to: &mut [Line],
        of_point: usize,
    ) {
        let (both, rest) = neighbours.as_chunks::<2>();
        assert!(rest.is_empty(), "lines are whole");
        let Some(last) = both.len().checked_sub(1) else { return };
        assert_pairs(&channel, neighbours.len());
        assert!((POINTS - 1) * of_point + last * SIDE < to.len(), "there are the lines of all points");
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        // SAFETY: as above.
        unsafe {
            crate::points::pack_windows(&channel, both, to, of_point);
        }
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        match self.never {}
    }

    /// Packs the points of patches of a channel, whose windows are multiplied by them: their rows `r` become `r0`, `r0 + r1`, `r0 − r1` and
    /// `−r1`, and then their columns do. `channel` has both lines of the patches, and `steps` is the number of lines of 32 patches, which
    /// are placed as by [`pack_windows`](Self::pack_windows).
    ///
    /// # Panics
    /// As [`pack_channels`](Self::pack_channels).
    pub fn pack_patches(
        self,
        channel: [PairLine<'_>; 2],
        steps: usize,
        to: &mut [Line],
        of_point: usize,
    ) {
        let Some(last) = steps.checked_sub(1) else { return };
        assert_pairs(&channel, 2 * steps);
        assert!((POINTS - 1) * of_point + last * SIDE < to.len(), "there are the lines of all points");
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        // SAFETY: as above.
        unsafe {
            crate::points::pack_patches(&channel, steps, to, of_point);
        }
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        match self.never {}
    }

    /// Exchanges lines of each 16 and the pairs of numbers in them: rows of a left matrix become columns of a right one.
    ///
    /// # Panics
    /// Panics unless there are 16 times as many lines.
    pub fn turn(self, lines: &mut [Line]) {
        let (tiles, rest) = lines.as_chunks_mut::<OF_TILE>();
        assert!(rest.is_empty(), "tiles are whole");
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        // SAFETY: as above.
        unsafe {
            tiles.iter_mut().for_each(|tile| crate::packing::turn(tile));
        }
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        match (self.never, tiles) {}
    }

    /// Makes the pixels of a channel's patches from the products of their points: the lines `to` have the two of each patch, of whole 16
    /// patches. `products` begins with those of the first point: 32 patches follow each other, and from each 32 to the next ones there are
    /// 1024 products. `of_point` products further are those of the next point.
    ///
    /// # Panics
    /// Panics unless both lines have as many pixels, and there are the products of all.
    pub fn put(self, products: &[f32], of_point: usize, to: [&mut [[f32; 2]]; 2]) {
        let [above, below] = to.map(|line| line.as_chunks_mut::<OF_TILE>());
        assert!(above.1.is_empty() && below.1.is_empty(), "there are whole 16 patches");
        assert_eq!(above.0.len(), below.0.len(), "both lines have the patches");
        let Some(last) = above.0.len().checked_sub(1) else { return };
        let needed = (POINTS - 1) * of_point + place(last, SIDE * SIDE) + OF_TILE;
        assert!(needed <= products.len(), "there are all products");
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        // SAFETY: as above, of products and pixels.
        unsafe {
            crate::points::put(products, of_point, [above.0, below.0]);
        }
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        match self.never {}
    }
}

/// # Panics
/// Panics unless lines have pairs of each 16 patches, and one before and one behind.
fn assert_pairs(lines: &[PairLine<'_>], count: usize) {
    let are_there = lines.iter().all(|line| line.len() >= count * OF_TILE + 2);
    assert!(are_there, "there are pixels of all patches");
}

/// Where 16 columns begin, if strips have two of them and are so far apart.
pub(crate) fn place(index: usize, of_strip: usize) -> usize {
    index / 2 * of_strip + index % 2 * OF_TILE
}

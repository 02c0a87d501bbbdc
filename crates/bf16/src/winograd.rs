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
        assert!(
            (POINTS - 1) * of_point + place(last, of_strip) < to.len(),
            "there are the lines of all points"
        );
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
    pub fn pack_patches(self, channel: [PairLine<'_>; 2], steps: usize, to: &mut [Line], of_point: usize) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rounded, Vectors, lines, truth::numbers, unit::Instructions};

    /// Patches: two strips, of which the second one is half full.
    const PATCHES: usize = 3 * OF_TILE;
    const PAIRS: usize = PATCHES + 2;

    fn units() -> Option<(MatrixUnit, WinogradUnit)> {
        let units = MatrixUnit::by(Instructions::Dots).and_then(|unit| Some((unit, unit.for_winograd()?)));
        if units.is_none() {
            println!("skipped: this processor has no {:?}", Instructions::Dots);
        }
        units
    }

    /// Lines of so many channels, and neighbours of some patches.
    fn pixels<const LINES: usize>(channels: usize) -> Vec<[Vec<[bf16; 2]>; LINES]> {
        let numbers = numbers(8, channels * LINES * PAIRS * 2, bf16::from_f32);
        let line = |channel: usize, line: usize| {
            numbers[(channel * LINES + line) * PAIRS * 2..][..PAIRS * 2].as_chunks().0.to_vec()
        };
        (0..channels).map(|channel| std::array::from_fn(|index| line(channel, index))).collect()
    }

    const NEIGHBOURS: [Neighbours; 4] = [[0xfffe, 0xffff], [0xfdff, 0xfeff], [0xffff, 0x7fff], [0, 0]];

    /// The points of a window, as the documentation has them.
    fn window_points(lines: &[Vec<[bf16; 2]>; 4], patch: usize) -> [f32; POINTS] {
        let points = |[a, b, c, d]: [f32; 4]| [a - c, b + c, c - b, b - d];
        let [left, right] = NEIGHBOURS[patch / OF_TILE].map(|bits| bits >> (patch % OF_TILE) & 1 == 1);
        let pixel = |row: usize, column: usize| {
            let is_there = [left, true, true, right][column];
            if is_there { lines[row].as_flattened()[2 * patch + 1 + column].to_f32() } else { 0.0 }
        };
        let down = [0, 1, 2, 3].map(|column| points([0, 1, 2, 3].map(|row| pixel(row, column))));
        let rows = [0, 1, 2, 3].map(|row| points(down.map(|column| column[row])));
        std::array::from_fn(|point| rows[point / 4][point % 4])
    }

    fn patch_points(lines: &[Vec<[bf16; 2]>; 2], patch: usize) -> [f32; POINTS] {
        let points = |[a, b]: [f32; 2]| [a, a + b, a - b, 0.0 - b];
        let down = [0, 1].map(|column| points([0, 1].map(|row| lines[row][patch + 1][column].to_f32())));
        let rows = [0, 1, 2, 3].map(|row| points(down.map(|column| column[row])));
        std::array::from_fn(|point| rows[point / 4][point % 4])
    }

    /// Numbers of one point, `of` rows of `each`, as vectors along memory.
    fn of_point(
        point: usize,
        [of, each]: [usize; 2],
        points: impl Fn(usize, usize) -> [f32; POINTS],
    ) -> Vec<f32> {
        (0..of * each).map(|at| points(at / each, at % each)[point]).collect()
    }

    #[test]
    fn channels_are_packed_as_points_that_are_columns() {
        let Some((unit, points)) = units() else { return };
        let channels = pixels::<4>(SIDE);
        let (strips, apart) = (PATCHES.div_ceil(SIDE), 2 * SIDE + 1);
        let mut found = vec![Line::ZERO; POINTS * apart];
        for (index, [even, odd]) in channels.as_chunks::<2>().0.iter().enumerate() {
            let both = [even, odd].map(|lines| lines.each_ref().map(Vec::as_slice));
            points.pack_channels(both, &NEIGHBOURS[..3], &mut found[index..], [SIDE, apart]);
        }
        for point in 0..POINTS {
            let rows =
                of_point(point, [SIDE, PATCHES], |channel, patch| window_points(&channels[channel], patch));
            let mut expected = vec![Line::ZERO; lines(PATCHES, SIDE, 1)];
            unit.pack_right(Vectors::across(Rounded::all(&rows), PATCHES, PATCHES, SIDE), &mut expected);
            assert!(found[point * apart..][..strips * SIDE] == expected, "{point}");
        }
    }

    #[test]
    fn windows_and_patches_are_packed_as_points_that_are_inner_indices() {
        let Some((unit, points)) = units() else { return };
        let (windows, patches) = (pixels::<4>(SIDE), pixels::<2>(SIDE));
        let (inner, apart) = (SIDE, SIDE + 1);
        let [mut left, mut right] = [(); 2].map(|()| vec![Line::ZERO; POINTS * apart]);
        for channel in 0..SIDE {
            let lines = windows[channel].each_ref().map(Vec::as_slice);
            points.pack_windows(lines, &NEIGHBOURS[..2], &mut right[channel..], apart);
            let lines = patches[channel].each_ref().map(Vec::as_slice);
            points.pack_patches(lines, 1, &mut left[channel..], apart);
        }
        for point in 0..POINTS {
            points.turn(&mut right[point * apart..][..SIDE]);
            let mut expected = [vec![Line::ZERO; SIDE], vec![Line::ZERO; SIDE]];
            let rows =
                of_point(point, [SIDE, inner], |channel, patch| patch_points(&patches[channel], patch));
            unit.pack_left(Vectors::along(Rounded::all(&rows), inner, SIDE), &mut expected[0]);
            let rows =
                of_point(point, [SIDE, inner], |channel, patch| window_points(&windows[channel], patch));
            unit.pack_right(Vectors::along(Rounded::all(&rows), inner, SIDE), &mut expected[1]);
            let found = [&left, &right].map(|lines| lines[point * apart..][..SIDE].to_vec());
            assert!(found == expected, "{point}");
        }
    }

    #[test]
    fn pixels_are_sums_of_products() {
        let Some((_, points)) = units() else { return };
        let apart = PATCHES.div_ceil(SIDE) * SIDE * SIDE + 7;
        let products = numbers(5, POINTS * apart, |number| number);
        let mut found = [(); 2].map(|()| vec![[0.0; 2]; PATCHES]);
        let [above, below] = &mut found;
        points.put(&products, apart, [above, below]);
        let pixels = |[a, b, c, d]: [f32; 4]| [a + (b + c), b - c - d];
        for patch in 0..PATCHES {
            let product = |point: usize| products[point * apart + patch / SIDE * SIDE * SIDE + patch % SIDE];
            let down = [0, 1, 2, 3].map(|column| pixels([0, 1, 2, 3].map(|row| product(4 * row + column))));
            for (line, found) in found.iter().enumerate() {
                assert_eq!(found[patch], pixels(down.map(|column| column[line])), "{patch}");
            }
        }
    }
}

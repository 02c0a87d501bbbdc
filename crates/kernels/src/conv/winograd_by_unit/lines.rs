//! Copies of the pixels of a channel that patches and their windows read.

use burn::tensor::bf16;
use oomph_bf16::{Neighbours, PairLine};

use crate::conv::{
    pieces::{Pieces, lanes, lanes_mut, pieces},
    winograd::{PATCH, Windows},
};

/// The most patches of a block.
pub(super) const PATCHES: usize = 512;

/// Patches of a register.
pub(super) const OF_REGISTER: usize = 16;

/// Some lines of a channel for each row of a block's patches, one behind the other: the pairs of pixels of each patch. Beyond the image are
/// zeros.
pub(super) struct Lines<const LINES: usize>([[[bf16; 2]; PATCHES + 2]; LINES]);

/// Pixels of an image: height and width.
type Size = [usize; 2];

impl<const LINES: usize> Lines<LINES> {
    pub(super) fn zeros() -> Self {
        Self([[[bf16::ZERO; 2]; PATCHES + 2]; LINES])
    }

    /// Copies the lines of a channel, of which the first begins `above` its patches. `plane` gives its pixels in each image of the block.
    /// What is zero there must be so already.
    #[inline(always)]
    pub(super) fn copy<'a>(
        &mut self,
        windows: &Windows,
        above: usize,
        [height, width]: Size,
        plane: impl Fn(usize) -> &'a [bf16],
    ) {
        let pitch = width.next_multiple_of(PATCH);
        for image in 0..windows.images {
            let plane = plane(windows.first_image + image);
            for patch in 0..windows.height {
                let at = PATCH + (image * windows.height + patch) * pitch;
                let first = PATCH * (windows.first_row + patch);
                for (line, to) in self.0.iter_mut().enumerate() {
                    let read = (first + line).checked_sub(above).filter(|y| *y < height);
                    if let Some(y) = read {
                        let (from, to) = (&plane[y * width..], &mut to.as_flattened_mut()[at..]);
                        pieces(width, Copied { from, to });
                    }
                }
            }
        }
    }

    pub(super) fn all(&self) -> [PairLine<'_>; LINES] {
        self.0.each_ref().map(|line| line.as_slice())
    }
}

struct Copied<'a> {
    from: &'a [bf16],
    to: &'a mut [bf16],
}

impl Pieces for Copied<'_> {
    #[inline(always)]
    fn piece<const COUNT: usize>(&mut self, at: usize) {
        *lanes_mut::<_, COUNT>(self.to, at) = *lanes(self.from, at);
    }
}

/// The neighbours of a block's patches, of which `width` make a row.
pub(super) fn neighbours(windows: &Windows, width: usize) -> [Neighbours; PATCHES / OF_REGISTER] {
    let mut all = [[0; 2]; PATCHES / OF_REGISTER];
    for patch in 0..windows.images * windows.height * width {
        let has = [!patch.is_multiple_of(width), !(patch + 1).is_multiple_of(width)];
        for (bits, has) in all[patch / OF_REGISTER].iter_mut().zip(has) {
            *bits |= u16::from(has) << (patch % OF_REGISTER);
        }
    }
    all
}

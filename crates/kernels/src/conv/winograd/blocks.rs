//! The patches that are computed at once.

use std::ops::Range;

use crate::tile::Tile;

/// The tasks that threads share, at least, if there are as many images.
pub(in crate::conv) const TASKS: usize = 8;

/// Patches of all images, cut into blocks.
#[derive(Clone, Copy, Debug)]
pub(in crate::conv) struct Blocks {
    tile: Tile,
    batch: usize,
    /// Patches of an image down and across.
    pub(in crate::conv) patches: [usize; 2],
    /// Images of a block.
    pub(in crate::conv) images: usize,
    /// Rows of patches of a block.
    pub(in crate::conv) height: usize,
}

/// The windows of a block of patches.
pub(in crate::conv) struct Windows {
    pub(in crate::conv) first_image: usize,
    pub(in crate::conv) images: usize,
    /// The first row of patches.
    pub(in crate::conv) first_row: usize,
    /// Rows of patches.
    pub(in crate::conv) height: usize,
}

impl Blocks {
    /// Blocks of `least` to `most` patches, or of one row of patches if that has more, or of all patches if there are fewer.
    /// They are chosen such that few columns of the last tile are unused, and that several threads have tasks of as many images, if images
    /// are computed in so many `parts`.
    pub(in crate::conv) fn new(
        tile: Tile,
        batch: usize,
        patches: [usize; 2],
        [least, most]: [usize; 2],
        parts: usize,
    ) -> Self {
        let [rows, width] = patches.map(|patches| patches.max(1));
        let batch = batch.max(1);
        let most_images = (batch * parts / TASKS).max(1);
        let blocks = |images: usize| {
            let heights = 1..=(most / (images * width)).clamp(1, rows);
            heights.map(move |height| Self { tile, batch, patches: [rows, width], images, height })
        };
        let all = (1..=(most / width).clamp(1, most_images)).flat_map(blocks);
        let fewest = all.clone().map(|blocks| blocks.computed()).min().unwrap_or_default();
        let good = all.filter(|blocks| blocks.computed() * 98 <= fewest * 100);
        let least = least.min(batch * rows * width);
        let enough = good.clone().find(|blocks| blocks.of_each() >= least);
        let found = enough.or_else(|| good.max_by_key(|blocks| blocks.of_each()));
        found.unwrap_or(Self { tile, batch, patches: [rows, width], images: 1, height: 1 })
    }

    /// The windows of each block of some images: at most so many as a block has, or all of the batch.
    pub(in crate::conv) fn windows(self, images: Range<usize>) -> impl Iterator<Item = Windows> {
        let end = images.end;
        let of_images = move |first_image: usize| {
            (0..self.patches[0]).step_by(self.height).map(move |first_row| Windows {
                first_image,
                images: self.images.min(end - first_image),
                first_row,
                height: self.height.min(self.patches[0] - first_row),
            })
        };
        images.step_by(self.images).flat_map(of_images)
    }

    /// Patches of some windows.
    pub(in crate::conv) fn patches_of(&self, windows: &Windows) -> usize {
        windows.images * windows.height * self.patches[1]
    }

    /// Patches of a block.
    fn of_each(&self) -> usize {
        self.images * self.height * self.patches[1]
    }

    /// Columns of a block.
    pub(in crate::conv) fn columns(&self) -> usize {
        self.tile.padded_columns(self.of_each())
    }

    /// Columns of all blocks; the last blocks have fewer than others.
    pub(in crate::conv) fn computed(&self) -> usize {
        let [rows, width] = self.patches;
        let of_images = |images: usize| {
            let computed = |height: usize| self.tile.padded_columns(images * height * width);
            rows / self.height * computed(self.height) + computed(rows % self.height)
        };
        self.batch / self.images * of_images(self.images) + of_images(self.batch % self.images)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_of_the_columns_is_unused() {
        let tile = Tile { rows: 8, columns: 32 };
        // Image counts and sizes as in the stages of ResNets.
        for (batch, patches) in
            [(32, [16, 16]), (32, [8, 8]), (32, [4, 4]), (32, [2, 2]), (8, [28, 28]), (8, [14, 14])]
        {
            let blocks = Blocks::new(tile, batch, patches, [64, 128], TASKS);
            assert!((64..=128).contains(&blocks.columns()), "{blocks:?}");
            let patches = batch * patches[0] * patches[1];
            assert!((patches..=patches + patches / 7).contains(&blocks.computed()), "{blocks:?}");
        }
    }

    #[test]
    fn few_or_wide_patches_make_a_block_too() {
        let tile = Tile { rows: 8, columns: 32 };
        let columns = |batch, patches| Blocks::new(tile, batch, patches, [64, 128], TASKS).columns();
        assert_eq!([columns(1, [1, 1]), columns(0, [1, 1]), columns(3, [2, 150])], [32, 32, 160]);
    }
}

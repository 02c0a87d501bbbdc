use std::ops::Range;

use oomph_core::{Account, charge};

use super::{
    blocking::{POINTS, Winograd},
    points::Windows,
};
use crate::{
    conv::product::ConvTask,
    stored_float::StoredFloat,
    tile::{RightMatrix, TileColumn},
};

/// Writes the rows of a task.
#[inline(always)]
pub(super) fn compute<E: StoredFloat>(
    winograd: &Winograd,
    weights: &[f32],
    source: &[E],
    task: &mut ConvTask<'_, E>,
    workspace: &mut [f32],
) {
    let [points, products, _] = winograd.parts_of_workspace();
    let (points, rest) = workspace.split_at_mut(points);
    let (products, between) = rest.split_at_mut(products);
    let stride = winograd.stride();
    let (offsets, nothing) = charge(Account::Host, || {
        let offsets = (0..winograd.at_once).map(|channel| (channel * stride) as u32);
        (offsets.collect::<Vec<_>>(), vec![E::ZERO; winograd.product.source[1]])
    });
    let padded = winograd.tile.padded_rows(task.rows);
    let apart = [winograd.point(winograd.at_once), winograd.point(padded)];
    for first_row in (0..winograd.blocks.patches[0]).step_by(winograd.blocks.height) {
        let windows = Windows {
            first_image: task.first_image,
            images: task.images.len(),
            first_row,
            height: winograd.blocks.height.min(winograd.blocks.patches[0] - first_row),
        };
        for first in (0..winograd.product.channels).step_by(winograd.at_once) {
            let channels = first..(first + winograd.at_once).min(winograd.product.channels);
            let offsets = &offsets[..channels.len()];
            winograd.make_points(&windows, channels.clone(), source, &nothing, points, between);
            let rows = task.first_row..task.first_row + padded;
            let columns = windows.images * windows.height * winograd.blocks.patches[1];
            for point in 0..POINTS {
                AtPoint {
                    winograd,
                    left: winograd.tiles_of(weights, point, channels.clone(), rows.clone()),
                    right: &points[point * apart[0]..],
                    offsets,
                    add: first > 0,
                }
                .compute(columns, &mut products[point * apart[1]..][..padded * stride]);
            }
        }
        for row in 0..task.rows {
            winograd.put_patches(&windows, row, &products[row * stride..], apart[1], task, between);
        }
    }
}

impl Winograd {
    /// The tiles of weights of some rows and channels for a point.
    #[inline(always)]
    fn tiles_of<'a>(
        &self,
        weights: &'a [f32],
        point: usize,
        channels: Range<usize>,
        rows: Range<usize>,
    ) -> &'a [f32] {
        let of_channels = POINTS * channels.start + point * channels.len();
        let before = of_channels * self.tile.padded_rows(self.product.rows);
        &weights[before + rows.start * channels.len()..][..rows.len() * channels.len()]
    }
}

/// The product of some rows and some channels, at one point.
struct AtPoint<'a> {
    winograd: &'a Winograd,
    left: &'a [f32],
    right: &'a [f32],
    /// The offset of each channel.
    offsets: &'a [u32],
    /// Whether the products are added to those of other channels.
    add: bool,
}

impl AtPoint<'_> {
    #[inline(always)]
    fn compute(&self, columns: usize, sums: &mut [f32]) {
        let Self { winograd, left, right, offsets, add } = *self;
        for column in (0..columns).step_by(winograd.tile.columns) {
            let right = RightMatrix { elements: &right[column..], runs: [0, winograd.tile.run()], offsets };
            TileColumn { left, right, sums: &mut sums[column..], stride: winograd.stride(), add }.compute();
        }
    }
}

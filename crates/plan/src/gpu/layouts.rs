//! The layouts of burn-cubecl's tensors: padded rows, and the conditions under which its operations read or write a layout.

use burn_backend::{Shape, Slice};

use crate::{layout::Layout, pools::Grain};

impl Layout {
    /// A new tensor with padded rows, and the elements of its storage (`PitchedMemoryLayoutPolicy` of cubecl-runtime). A row
    /// is padded to the next power of two of its bytes: at least 16, and from 512 on to a multiple of 512. Rows of one
    /// element are not padded.
    pub(crate) fn padded(shape: &[usize], element_bytes: usize) -> (Self, usize) {
        let width = shape.last().copied().unwrap_or(1);
        let align = match width {
            1 => element_bytes,
            _ => (width * element_bytes).next_power_of_two().clamp(16, Grain::CUDA.alignment as usize),
        };
        let pitch = (width * element_bytes).next_multiple_of(align) / element_bytes;
        let rank = shape.len();
        let mut layout = Self::contiguous(shape);
        for dim in (0..rank.saturating_sub(1)).rev() {
            let row = dim + 2 == rank;
            layout.strides[dim] =
                if row { pitch as isize } else { layout.strides[dim + 1] * shape[dim + 1] as isize };
        }
        let rows: usize = shape[..rank.saturating_sub(1)].iter().product();
        (layout, rows * pitch)
    }

    /// `CubeTensor::is_nonoverlapping`: whether no two elements share a place, so that the tensor may be written.
    pub(super) fn is_writable(&self) -> bool {
        if self.strides.contains(&0) {
            return false;
        }
        let mut dims: Vec<_> = self.shape.iter().zip(&self.strides).collect();
        dims.sort_by_key(|(_, stride)| **stride);
        let mut last = 0;
        self.shape.len() < 2
            || dims.into_iter().all(|(size, stride)| {
                let is_beyond = *stride > last || *size == 1;
                last += (*size as isize - 1) * *stride;
                is_beyond
            })
    }

    /// `has_pitched_row_major_strides`: whether it is contiguous but for the padding of its rows.
    pub(super) fn is_row_major(&self) -> bool {
        let (shape, strides, rank) = (&self.shape, &self.strides, self.shape.len());
        strides.last() == Some(&1)
            && !strides.contains(&0)
            && (rank < 2 || strides[rank - 2] >= shape[rank - 1] as isize)
            && (0..rank.saturating_sub(2))
                .all(|dim| strides[dim] == shape[dim + 1] as isize * strides[dim + 1])
    }

    /// `MatrixBatchLayout::HighlyPermuted`: whether a matrix product copies the operand first.
    pub(super) fn is_no_matrix(&self) -> bool {
        let rank = self.strides.len();
        if rank < 2 {
            return false;
        }
        let (row, column) = (self.strides[rank - 2], self.strides[rank - 1]);
        let is_inside = |stride: &isize| *stride != 0 && (*stride < row || *stride < column);
        row == 0 || column == 0 || self.strides[..rank - 2].iter().any(is_inside)
    }

    /// `reshape_action` of burn-std: the layout of the same storage in another shape; `None` if that takes a copy.
    pub(super) fn reshaped(&self, shape: &[usize]) -> Option<Self> {
        let strides = if self.is_contiguous() {
            Self::contiguous(shape).strides
        } else if self.shape == shape {
            self.strides.clone()
        } else {
            let added = shape.len().checked_sub(self.shape.len()).filter(|added| *added > 0)?;
            let is_batch = self.shape == shape[added..] && shape[..added].iter().all(|size| *size == 1);
            match is_batch {
                true => {
                    let stride = self.elements() as isize;
                    std::iter::repeat_n(stride, added).chain(self.strides.iter().copied()).collect()
                }
                false => self.split(shape)?,
            }
        };
        Some(Self { shape: shape.to_vec(), strides, offset: self.offset })
    }

    /// The strides if `shape` only divides dimensions (`ReshapeAnalysis::Split`).
    fn split(&self, shape: &[usize]) -> Option<Vec<isize>> {
        let (mut product, mut old) = (1, 0);
        for size in shape.iter().filter(|size| **size != 1) {
            product *= size;
            match self.shape.get(old).map(|of| product.cmp(of)) {
                Some(std::cmp::Ordering::Equal) => (product, old) = (1, old + 1),
                Some(std::cmp::Ordering::Less) => {}
                _ => return None,
            }
        }
        let above = |mut dim: usize| {
            while dim > 0 && self.shape[dim] == 1 {
                dim -= 1;
            }
            dim
        };
        let mut old = above(self.shape.len() - 1);
        let (mut stride, mut product) = (self.strides[old], 1);
        let mut strides = vec![1; shape.len()];
        for (dim, size) in shape.iter().enumerate().rev() {
            product *= size;
            strides[dim] = stride;
            if *size == 1 {
                continue;
            }
            if product == self.shape[old] {
                old = above(old.saturating_sub(1));
                (stride, product) = (self.strides[old], 1);
            } else {
                stride *= *size as isize;
            }
        }
        Some(strides)
    }

    /// The slice of the same storage; `None` if it takes a copy (`kernel::slice`): its start and its end must be at elements
    /// for which `is_aligned`, and its steps 1.
    pub(super) fn slice(&self, ranges: &[Slice], is_aligned: impl Fn(usize) -> bool) -> Option<Self> {
        let mut slice = self.clone();
        let (mut before, mut behind) = (0, 0);
        for (dim, range) in ranges.iter().enumerate() {
            if range.step != 1 {
                return None;
            }
            let size = self.shape[dim];
            let taken = range.to_range(size);
            let stride = self.strides[dim].unsigned_abs();
            before += stride * taken.start;
            behind += stride * (size - taken.end);
            slice.shape[dim] = taken.end - taken.start;
        }
        slice.offset += before;
        (is_aligned(before) && is_aligned(behind)).then_some(slice)
    }

    /// Whether an image `[B, C, H, W]` lies channels-last: the channels of a pixel lie together.
    pub(super) fn is_channels_last(&self) -> bool {
        self.shape.len() == 4 && self.shape[1] > 1 && self.strides[1] == 1 && !self.is_contiguous()
    }

    /// Channels last: `[B, C, …]` as `[B, …, C]`.
    pub(super) fn channels_last(&self) -> Self {
        let rank = self.shape.len();
        self.permuted(&[0].into_iter().chain(2..rank).chain([1]).collect::<Vec<_>>())
    }

    /// Channels first: `[B, …, C]` as `[B, C, …]`.
    pub(super) fn channels_first(&self) -> Self {
        let rank = self.shape.len();
        self.permuted(&[0, rank - 1].into_iter().chain(1..rank - 1).collect::<Vec<_>>())
    }
}

/// The shape of `[B, C, …]` with channels last.
pub(super) fn channels_last(shape: &[usize]) -> Vec<usize> {
    Layout::contiguous(shape).channels_last().shape
}

/// Whether `linear` and products of batches run as one product of all rows (`MatmulTransformPolicy` of burn-std): the rows
/// of a matrix do not fill tiles of 32, and all rows together are closer to a square.
pub(super) fn merges_rows(left: &Shape, columns: usize) -> bool {
    let rank = left.num_dims();
    let (batches, rows): (usize, usize) = (left[..rank - 2].iter().product(), left[rank - 2]);
    let all = batches * rows;
    batches > 1
        && !rows.is_multiple_of(32)
        && all.min(columns) * rows.max(columns) > rows.min(columns) * all.max(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_padded_to_powers_of_two() {
        // (shape, bytes of an element, stride of a row, elements of the storage)
        let cases: [(&[usize], usize, isize, usize); 7] = [
            // 28 · 4 = 112 bytes: rows of 128.
            (&[2, 28, 28], 4, 32, 2 * 28 * 32),
            // 12 bytes: at least 16.
            (&[5, 3], 4, 4, 20),
            // 1000 · 4 = 4000 bytes: a multiple of 512 is 4096.
            (&[8, 1000], 4, 1024, 8 * 1024),
            // 130 · 4 = 520 bytes: the next multiple of 512.
            (&[2, 130], 4, 256, 512),
            // 2-byte elements: 7 · 2 = 14 bytes, rows of 16.
            (&[3, 7], 2, 8, 24),
            // One element a row is not padded.
            (&[64, 3, 1, 1], 4, 1, 192),
            (&[64], 4, 1, 64),
        ];
        for (shape, element, row, elements) in cases {
            let (layout, all) = Layout::padded(shape, element);
            let stride = layout.strides.iter().nth_back(1).copied().unwrap_or(row);
            assert_eq!((stride, all), (row, elements), "{shape:?}");
            assert!(layout.is_row_major() && layout.is_writable(), "{shape:?}");
        }
        // A vector is padded as a row is: 3 · 4 = 12 bytes.
        assert_eq!(Layout::padded(&[3], 4).1, 4);
    }

    #[test]
    fn padded_rows_are_divided_without_a_copy_but_not_joined() {
        let (padded, _) = Layout::padded(&[6, 28], 4);
        assert_eq!(padded.reshaped(&[2, 3, 28]).unwrap().strides, [96, 32, 1]);
        assert_eq!(padded.reshaped(&[1, 6, 28]).unwrap().strides, [168, 32, 1]);
        assert_eq!(padded.reshaped(&[168]), None);
        assert_eq!(padded.reshaped(&[3, 56]), None);
        let (packed, _) = Layout::padded(&[6, 32], 4);
        assert_eq!(packed.reshaped(&[192]).unwrap().strides, [1]);
        let swapped = Layout::contiguous(&[4, 6]).swapped(0, 1);
        assert_eq!(swapped.reshaped(&[24]), None);
    }

    #[test]
    fn aligned_slices_share_storage() {
        let rows = Layout::padded(&[8, 128], 4).0;
        let of = |from, to| [Slice::new(from, Some(to), 1)];
        // 512 bytes of 4 each.
        let is_aligned = |elements: usize| elements.is_multiple_of(128);
        assert_eq!(rows.slice(&of(1, 3), is_aligned).map(|slice| slice.offset), Some(128));
        let narrow = Layout::padded(&[8, 32], 4).0;
        assert_eq!(narrow.slice(&of(1, 8), is_aligned), None);
        assert!(narrow.slice(&of(4, 8), is_aligned).is_some());
        assert_eq!(rows.slice(&[Slice::new(0, Some(8), 2)], is_aligned), None);
    }

    #[test]
    fn products_copy_only_broadcast_and_interleaved_matrices() {
        let matrix = Layout::contiguous(&[4, 6]);
        assert!(!matrix.is_no_matrix() && !matrix.clone().swapped(0, 1).is_no_matrix());
        assert!(!matrix.expanded(&[3, 4, 6]).is_no_matrix(), "a broadcast batch is read as it is");
        assert!(Layout::contiguous(&[1, 6]).expanded(&[4, 6]).is_no_matrix());
        assert!(
            Layout::contiguous(&[2, 3, 4]).permuted(&[1, 0, 2]).is_no_matrix(),
            "rows lie between batches"
        );
        assert!(!Layout::contiguous(&[2, 3, 4, 5]).permuted(&[1, 0, 2, 3]).is_no_matrix());
    }
}

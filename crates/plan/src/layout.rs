use burn_ir::BaseOperationIr as Base;

/// Whether the operation only changes the layout of its operand.
pub(crate) fn is_view(base: &Base) -> bool {
    matches!(
        base,
        Base::Reshape(_)
            | Base::SwapDims(_)
            | Base::Permute(_)
            | Base::Flip(_)
            | Base::Expand(_)
            | Base::Slice(_)
    )
}

/// How a backend lays out tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TensorRules {
    pub(crate) rows: Rows,
    /// Bytes of a boolean.
    pub(crate) bool_bytes: u64,
}

/// How the rows of new tensors lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// One directly behind the other.
    Packed,
    /// Each at a multiple of a power of two bytes.
    Padded,
}

/// The layout of a tensor in its storage: shape, strides and offset in elements, as in burn-flex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) shape: Vec<usize>,
    pub(crate) strides: Vec<isize>,
    pub(crate) offset: usize,
}

impl Layout {
    pub(crate) fn contiguous(shape: &[usize]) -> Self {
        let mut strides = vec![1; shape.len()];
        for dim in (0..shape.len().saturating_sub(1)).rev() {
            strides[dim] = strides[dim + 1] * shape[dim + 1] as isize;
        }
        Self { shape: shape.to_vec(), strides, offset: 0 }
    }

    pub(crate) fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        self.strides == Self::contiguous(&self.shape).strides
    }

    /// Whether it is contiguous and starts at the first element of its storage.
    pub(crate) fn starts_contiguous(&self) -> bool {
        self.offset == 0 && self.is_contiguous()
    }

    pub(crate) fn has_negative_strides(&self) -> bool {
        self.strides.iter().any(|stride| *stride < 0)
    }

    /// Whether it covers its storage densely from the first element, apart from dimensions of size 1. Then Flex writes a
    /// broadcast operation in place (`ZipNest::lhs_is_dense_from_zero`).
    pub(crate) fn is_dense(&self) -> bool {
        if self.offset != 0 || self.has_negative_strides() {
            return false;
        }
        let mut next: isize = 1;
        let mut long = self.shape.iter().zip(&self.strides).rev().filter(|(size, _)| **size != 1);
        long.all(|(size, stride)| {
            let is_next = *stride == next;
            next *= *size as isize;
            is_next
        })
    }

    pub(crate) fn swapped(mut self, first: usize, second: usize) -> Self {
        self.shape.swap(first, second);
        self.strides.swap(first, second);
        self
    }

    pub(crate) fn permuted(&self, axes: &[usize]) -> Self {
        Self {
            shape: axes.iter().map(|axis| self.shape[*axis]).collect(),
            strides: axes.iter().map(|axis| self.strides[*axis]).collect(),
            offset: self.offset,
        }
    }

    pub(crate) fn flipped(mut self, axes: &[usize]) -> Self {
        for &axis in axes {
            if self.shape[axis] > 1 {
                let span = (self.shape[axis] as isize - 1) * self.strides[axis];
                self.offset = (self.offset as isize + span).unsigned_abs();
                self.strides[axis] = -self.strides[axis];
            }
        }
        self
    }

    /// Broadcast to `shape`: stride 0 for dimensions of size 1 that grow.
    pub(crate) fn expanded(&self, shape: &[usize]) -> Self {
        let added = shape.len() - self.shape.len().min(shape.len());
        let strides = (0..shape.len())
            .map(|dim| match dim.checked_sub(added) {
                Some(own) if self.shape[own] == shape[dim] => self.strides[own],
                Some(_) | None => 0,
            })
            .collect();
        Self { shape: shape.to_vec(), strides, offset: self.offset }
    }

    /// The slice from `starts` on with `steps`, of size `shape`.
    pub(crate) fn sliced(&self, starts: &[usize], steps: &[isize], shape: &[usize]) -> Self {
        let mut sliced = self.clone();
        sliced.shape = shape.to_vec();
        for (dim, (start, step)) in starts.iter().zip(steps).enumerate() {
            sliced.offset = (sliced.offset as isize + self.strides[dim] * *start as isize).unsigned_abs();
            sliced.strides[dim] = self.strides[dim] * step;
        }
        sliced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_contiguous_by_the_rules_of_flex() {
        let matrix = Layout::contiguous(&[2, 3]);
        assert!(matrix.starts_contiguous() && matrix.is_dense());
        assert!(!matrix.clone().swapped(0, 1).is_contiguous());
        assert!(!matrix.expanded(&[4, 2, 3]).is_dense());
        // Swapping the dimensions of a single row moves no elements. It is dense, but not contiguous for Flex.
        let row = Layout::contiguous(&[1, 3]).swapped(0, 1);
        assert!(row.is_dense() && !row.is_contiguous());
        let tail = matrix.sliced(&[1, 0], &[1, 1], &[1, 3]);
        assert!(tail.is_contiguous() && !tail.starts_contiguous());
        assert!(matrix.flipped(&[1]).has_negative_strides());
    }
}

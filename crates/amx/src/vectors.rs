use half::{bf16, slice::HalfFloatSliceExt};

/// The rows of a left matrix, or the columns of a right one. Their elements follow each other by the inner index.
#[derive(Clone, Copy, Debug)]
pub struct Vectors<'a> {
    pub(crate) elements: &'a [u16],
    pub(crate) count: usize,
    pub(crate) inner: usize,
    /// Elements between two vectors that lie along memory, or between two elements of vectors that lie across it.
    pub(crate) stride: usize,
    pub(crate) are_across: bool,
}

impl<'a> Vectors<'a> {
    /// `count` vectors of `inner` elements, one behind the other.
    ///
    /// # Panics
    /// Panics if there are fewer elements.
    pub fn along(elements: &'a [bf16], inner: usize, count: usize) -> Self {
        assert!(inner * count <= elements.len(), "the vectors are within the elements");
        Self { elements: elements.reinterpret_cast(), count, inner, stride: inner, are_across: false }
    }

    /// `count` vectors side by side, of `inner` elements each: the first elements of all, and `stride` elements further the second ones.
    ///
    /// # Panics
    /// Panics if there are fewer elements.
    pub fn across(elements: &'a [bf16], stride: usize, count: usize, inner: usize) -> Self {
        let needed = if inner == 0 || count == 0 { 0 } else { (inner - 1) * stride + count };
        assert!(needed <= elements.len(), "the vectors are within the elements");
        Self { elements: elements.reinterpret_cast(), count, inner, stride, are_across: true }
    }

    /// The bits of an element; zero behind the last vector and behind the last element.
    pub(crate) fn bits(&self, vector: usize, index: usize) -> u16 {
        match (vector < self.count && index < self.inner, self.are_across) {
            (false, _) => 0,
            (true, false) => self.elements[vector * self.stride + index],
            (true, true) => self.elements[index * self.stride + vector],
        }
    }
}

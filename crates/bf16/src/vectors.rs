use std::ops::Range;

use half::bf16;

/// A number that the unit multiplies, as a sum of numbers in bf16.
///
/// A number of 32 bits is the sum of three, the second of which has the rounding error of the first, and the third that of both. Of the
/// nine products of two such sums, the unit adds up the six largest. The others are smaller than 2⁻²³ of the product: so a sum of products
/// is as exact as by instructions of 32 bits. (Henry, Tang & Heinecke 2019, <https://arxiv.org/abs/1904.06376>.)
///
/// Of numbers below 2⁻¹⁰², the unit may take the last parts for zeros. The product of an infinity and a number is an infinity or not a
/// number.
pub trait Element: Copy + Default + Send + Sync + crate::packing::Load {
    /// Numbers in bf16 that make one.
    const PARTS: usize;

    /// The parts of a left and of a right element that are multiplied, in the order in which the products are added.
    const PRODUCTS: &[[usize; 2]];
}

impl Element for bf16 {
    const PARTS: usize = 1;
    const PRODUCTS: &[[usize; 2]] = &[[0, 0]];
}

impl Element for f32 {
    const PARTS: usize = 3;
    /// The smallest ones first.
    const PRODUCTS: &[[usize; 2]] = &[[2, 0], [1, 0], [1, 1], [0, 1], [0, 2], [0, 0]];
}

/// A number of 32 bits that is rounded to bf16 when it is packed: to the nearest, of two to the even one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
pub struct Rounded(pub f32);

impl Rounded {
    /// Numbers to round.
    pub fn all(numbers: &[f32]) -> &[Self] {
        // SAFETY: a number to round is a number, by its representation.
        unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), numbers.len()) }
    }
}

impl Element for Rounded {
    const PARTS: usize = bf16::PARTS;
    const PRODUCTS: &[[usize; 2]] = bf16::PRODUCTS;
}

/// The rows of a left matrix, or the columns of a right one. Their elements follow each other by the inner index.
#[derive(Clone, Copy, Debug)]
pub struct Vectors<'a, E> {
    pub(crate) elements: &'a [E],
    pub(crate) count: usize,
    pub(crate) inner: usize,
    /// Elements between two vectors that lie along memory, or between two elements of vectors that lie across it.
    pub(crate) stride: usize,
    pub(crate) are_across: bool,
}

impl<'a, E: Element> Vectors<'a, E> {
    /// `count` vectors of `inner` elements, one behind the other.
    ///
    /// # Panics
    /// Panics if there are fewer elements.
    pub fn along(elements: &'a [E], inner: usize, count: usize) -> Self {
        assert!(inner * count <= elements.len(), "the vectors are within the elements");
        Self { elements, count, inner, stride: inner, are_across: false }
    }

    /// `count` vectors side by side, of `inner` elements each: the first elements of all, and `stride` elements further the second ones.
    ///
    /// # Panics
    /// Panics if there are fewer elements.
    pub fn across(elements: &'a [E], stride: usize, count: usize, inner: usize) -> Self {
        let needed = if inner == 0 || count == 0 { 0 } else { (inner - 1) * stride + count };
        assert!(needed <= elements.len(), "the vectors are within the elements");
        Self { elements, count, inner, stride, are_across: true }
    }

    /// Some elements of some of the vectors.
    ///
    /// # Panics
    /// Panics if there are fewer vectors, or fewer elements.
    #[must_use]
    pub fn some_of(self, vectors: Range<usize>, indices: Range<usize>) -> Self {
        assert!(vectors.end <= self.count && indices.end <= self.inner, "the elements are there");
        let first = if self.are_across {
            indices.start * self.stride + vectors.start
        } else {
            vectors.start * self.stride + indices.start
        };
        let elements = self.elements.get(first..).unwrap_or_default();
        Self { elements, count: vectors.len(), inner: indices.len(), ..self }
    }
}

/// What packing and the tests read.
#[cfg(any(test, all(target_arch = "x86_64", target_os = "linux")))]
impl<E: Element> Vectors<'_, E> {
    /// 32 elements of a vector; zeros behind the last vector and behind the last element.
    pub(crate) fn some(&self, vector: usize, index: usize) -> [E; crate::SIDE] {
        let mut some = [E::default(); crate::SIDE];
        if vector < self.count {
            let to = &mut some[..crate::SIDE.min(self.inner.saturating_sub(index))];
            if self.are_across {
                let from =
                    self.elements.iter().skip(index * self.stride + vector).step_by(self.stride.max(1));
                to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            } else if !to.is_empty() {
                to.copy_from_slice(&self.elements[vector * self.stride + index..][..to.len()]);
            }
        }
        some
    }

    /// An element; zero behind the last vector and behind the last element.
    #[cfg(test)]
    pub(crate) fn element(&self, vector: usize, index: usize) -> E {
        match (vector < self.count && index < self.inner, self.are_across) {
            (false, _) => E::default(),
            (true, false) => self.elements[vector * self.stride + index],
            (true, true) => self.elements[index * self.stride + vector],
        }
    }
}

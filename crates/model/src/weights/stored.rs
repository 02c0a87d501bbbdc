use super::{element::Element, source::ReadAt};

/// Position and layout of a tensor's values in a file; checked to be within the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stored {
    pub(crate) element: Element,
    pub(crate) shape: Vec<usize>,
    /// The stride of each dimension, in elements; `None` for row-major order.
    strides: Option<Vec<usize>>,
    /// The byte of the first element.
    at: u64,
}

/// The values that tensors of a file share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Storage {
    /// The byte of its first element.
    pub(crate) at: u64,
    pub(crate) elements: usize,
}

/// Bytes that are decoded at once: a multiple of every element's size.
const CHUNK: usize = 1 << 16;

impl Stored {
    /// A tensor in row-major order.
    pub(crate) fn contiguous(element: Element, shape: Vec<usize>, at: u64) -> Self {
        Self { element, shape, strides: None, at }
    }

    /// A tensor with strides, whose first element is element `offset` of `storage`. `None` if the tensor reaches beyond the
    /// storage, or has more elements than it.
    pub(crate) fn strided(
        element: Element,
        storage: Storage,
        offset: usize,
        shape: Vec<usize>,
        strides: Vec<usize>,
    ) -> Option<Self> {
        if shape.len() != strides.len() {
            return None;
        }
        let count = shape.iter().try_fold(1usize, |count, size| count.checked_mul(*size))?;
        let reach = if count == 0 { Some(0) } else { reach(&shape, &strides) }?;
        if count > storage.elements || offset.checked_add(reach)? > storage.elements {
            return None;
        }
        let at = storage.at.checked_add((offset as u64).checked_mul(element.size() as u64)?)?;
        let strides = (count > 1 && !is_row_major(&shape, &strides)).then_some(strides);
        Some(Self { element, shape, strides, at })
    }

    /// The number of elements.
    pub(crate) fn elements(&self) -> usize {
        // The format's library, or the check above, makes sure that the product fits.
        self.shape.iter().product()
    }

    /// All elements in row-major order, in 32 bits. Only a tensor in another order takes a second buffer of that size.
    pub(crate) fn read(&self, bytes: &dyn ReadAt) -> std::io::Result<Vec<f32>> {
        match &self.strides {
            None => self.read_run(bytes, self.elements()),
            Some(strides) => {
                let reach = reach(&self.shape, strides).unwrap_or_default();
                let run = self.read_run(bytes, reach)?;
                Ok(gather(&run, &self.shape, strides))
            }
        }
    }

    /// `count` elements from the first on, in the order of the file.
    fn read_run(&self, bytes: &dyn ReadAt, count: usize) -> std::io::Result<Vec<f32>> {
        if !self.element.is_float() {
            return Ok(Vec::new());
        }
        let mut values = Vec::with_capacity(count);
        let mut chunk = [0; CHUNK];
        let (mut at, mut left) = (self.at, count * self.element.size());
        while left > 0 {
            let part = &mut chunk[..left.min(CHUNK)];
            bytes.read_at(at, part)?;
            self.element.decode(part, &mut values);
            at += part.len() as u64;
            left -= part.len();
        }
        Ok(values)
    }
}

/// Elements from the first to the last one, both included; `None` if the number overflows. No dimension is 0.
fn reach(shape: &[usize], strides: &[usize]) -> Option<usize> {
    let steps = shape.iter().zip(strides);
    steps.into_iter().try_fold(1usize, |reach, (size, stride)| {
        reach.checked_add(size.checked_sub(1)?.checked_mul(*stride)?)
    })
}

fn is_row_major(shape: &[usize], strides: &[usize]) -> bool {
    let mut expected = 1;
    shape.iter().zip(strides).rev().all(|(size, stride)| {
        // The stride of a dimension of size 1 does not matter.
        let fits = *size == 1 || *stride == expected;
        expected *= size;
        fits
    })
}

/// The elements in row-major order.
fn gather(run: &[f32], shape: &[usize], strides: &[usize]) -> Vec<f32> {
    let count = shape.iter().product();
    let mut values = Vec::with_capacity(count);
    let mut place = vec![0; shape.len()];
    for _ in 0..count {
        let at: usize = place.iter().zip(strides).map(|(place, stride)| place * stride).sum();
        values.push(run[at]);
        for (place, size) in place.iter_mut().zip(shape).rev() {
            *place += 1;
            if *place < *size {
                break;
            }
            *place = 0;
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(count: u8) -> Vec<u8> {
        (0..count).flat_map(|value| f32::from(value).to_le_bytes()).collect()
    }

    #[test]
    fn a_transposed_part_of_a_storage_is_read_in_row_major_order() {
        let bytes = bytes(12);
        // Rows 1 and 2 of a 3 × 4 matrix, transposed.
        let stored =
            Stored::strided(Element::F32, Storage { at: 0, elements: 12 }, 4, vec![4, 2], vec![1, 4])
                .unwrap();
        assert_eq!(stored.read(&bytes.as_slice()).unwrap(), [4.0, 8.0, 5.0, 9.0, 6.0, 10.0, 7.0, 11.0]);
        let stored =
            Stored::strided(Element::F32, Storage { at: 8, elements: 10 }, 1, vec![2, 1, 2], vec![2, 77, 1])
                .unwrap();
        assert_eq!(stored, Stored::contiguous(Element::F32, vec![2, 1, 2], 12));
        assert_eq!(stored.read(&bytes.as_slice()).unwrap(), [3.0, 4.0, 5.0, 6.0]);
    }

    #[test]
    fn what_is_not_stored_is_no_tensor() {
        let strided = |elements, offset, shape: &[usize], strides: &[usize]| {
            let storage = Storage { at: 0, elements };
            Stored::strided(Element::F32, storage, offset, shape.to_vec(), strides.to_vec())
        };
        assert!(strided(12, 0, &[3, 4], &[4, 1]).is_some());
        assert!(strided(12, 1, &[3, 4], &[4, 1]).is_none());
        assert!(strided(12, 0, &[3, 4], &[5, 1]).is_none());
        assert!(strided(12, 0, &[3], &[4, 1]).is_none());
        // A stride of 0 would make a large tensor of a small file.
        assert!(strided(12, 0, &[1 << 40], &[0]).is_none());
        assert!(strided(12, usize::MAX, &[2], &[1]).is_none());
        assert!(strided(12, 0, &[usize::MAX, usize::MAX], &[1, 1]).is_none());
        assert!(strided(12, 0, &[2, 2], &[usize::MAX, 1]).is_none());
        // Tensors without elements, and scalars, fit any storage.
        assert!(strided(0, 0, &[0, 5], &[5, 1]).is_some());
        assert!(strided(1, 0, &[], &[]).is_some());
    }
}

use burn::tensor::Tensor;

use crate::{
    blocks::{Change, change_rows},
    custom_op::CustomOp,
    kernels::Kernels,
    stored_float::{BLOCK, Buffer, StoredFloats},
};

/// The sum of two plain tensors of one shape and format: in the memory of the first, if nobody else holds it. On the CPU all threads
/// add; Burn adds in one.
///
/// # Panics
/// Panics if shapes or formats differ.
pub fn added<const D: usize>(first: Tensor<D>, second: Tensor<D>, kernels: Kernels) -> Tensor<D> {
    let (dims, dtype) = (first.dims(), first.dtype());
    assert!(dims == second.dims() && dtype == second.dtype(), "tensors to add differ");
    if kernels != Kernels::Cpu {
        return first + second;
    }
    CustomOp::change("add", first, [second.into()], dtype, |first, rest| {
        change_rows(first, dtype, BLOCK, Added(StoredFloats::of(&rest[0])))
    })
}

struct Added<'a>(StoredFloats<'a>);

impl Change for Added<'_> {
    #[inline(always)]
    fn change(&self, at: usize, block: &mut [f32], beside: &mut Buffer) {
        let second = self.0.read(at..at + block.len(), beside);
        block.iter_mut().zip(second).for_each(|(sum, second)| *sum += second);
    }
}

#[cfg(test)]
mod tests {
    use burn_backend::DType;

    use super::*;
    use crate::truth::{stored, values};

    #[test]
    fn sums_are_those_of_burn_in_every_format() {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            let sum = |kernels| {
                let [first, second] = ["first", "second"].map(|name| stored::<2>(name, [7, 9_001], dtype));
                values(added(first, second, kernels))
            };
            assert_eq!(sum(Kernels::Cpu), sum(Kernels::Composed), "{dtype:?}");
        }
    }
}

//! 16-bit types (burn-flex `ops/conv_common.rs`, `ops/matmul.rs`, `FloatTensorOps::float_cast`): bf16 is computed on 32-bit
//! copies; every cast goes through 64 bits.

use burn_backend::DType;
use burn_ir::CastOpIr;

use super::operands::contiguous;
use crate::allocator_sim::{AllocatorSim, Handle};

/// The operand of the computation: the handle itself, or a 32-bit copy of bf16.
pub(super) fn computed(m: &mut AllocatorSim, handle: &Handle) -> Handle {
    if handle.dtype != DType::BF16 {
        return m.share(handle);
    }
    let read = contiguous(m, handle);
    let wide = m.allocate(&handle.layout.shape.clone(), DType::F32);
    m.release(read);
    wide
}

/// The result in the requested type.
pub(super) fn narrowed(m: &mut AllocatorSim, result: Handle, dtype: DType) -> Handle {
    if dtype != DType::BF16 {
        return result;
    }
    let narrow = m.allocate_as(result.layout.clone(), dtype);
    m.release(result);
    narrow
}

/// A cast to another type, through 64 bits.
pub(super) fn cast(m: &mut AllocatorSim, op: &CastOpIr) {
    /// A list of numbers of 64 bits is counted as a tensor from here on.
    const COUNTED: u64 = 64 << 10;
    let input = m.input(&op.input);
    let read = contiguous(m, &input);
    let bytes = op.out.shape.num_elements() as u64 * 8;
    let wide = (bytes >= COUNTED).then(|| m.workspace(bytes));
    let output = m.allocate(&op.out.shape[..], op.out.dtype);
    m.release_all(wide.into_iter().chain([read, input]));
    m.output(&op.out, output);
}

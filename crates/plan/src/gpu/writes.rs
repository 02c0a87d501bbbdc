//! Operations that write a part of a tensor: in place, or into a copy if something else refers to it.

use burn_ir::TensorIr;

use super::instead;
use crate::allocator_sim::{AllocatorSim, Handle};

/// Writes into `tensor` from the operands `from`.
pub(super) fn into<const N: usize>(
    m: &mut AllocatorSim,
    tensor: &TensorIr,
    from: [&TensorIr; N],
    out: &TensorIr,
) {
    let tensor = m.input(tensor);
    let from: [Handle; N] = from.map(|ir| m.input(ir));
    let is_place = m.is_unique(&tensor) && tensor.layout.is_writable();
    let output = if is_place { tensor } else { instead(m, tensor, &out.shape[..]) };
    m.release_all(from);
    m.output(out, output);
}

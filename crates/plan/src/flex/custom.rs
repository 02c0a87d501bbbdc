//! Operations with oomph's own kernels instead of Burn's.
//!
//! Such a kernel reads contiguous tensors, and allocates only its outputs and its declared workspace. Its first scalar is
//! the number of outputs that reuse the first inputs, if those have no other references. Three more scalars declare the
//! workspace: bytes shared by all threads, bytes per thread, and the most threads. A fifth one is for plans of time.

use burn_ir::{CustomOpIr, ScalarIr};

use super::operands::contiguous;
use crate::allocator_sim::{AllocatorSim, Handle};

pub(super) fn run(m: &mut AllocatorSim, op: &CustomOpIr, threads: usize) {
    let in_place = match op.scalars[..] {
        [ScalarIr::UInt(count), ..] => count as usize,
        _ => 0,
    };
    let read = op.inputs.iter().map(|ir| {
        let input = m.input(ir);
        let read = contiguous(m, &input);
        m.release(input);
        read
    });
    let mut read: Vec<Option<Handle>> = read.map(Some).collect();
    for (index, ir) in op.outputs.iter().enumerate() {
        let place = read.get_mut(index).filter(|_| index < in_place);
        if let Some(place) = place.and_then(|place| place.take_if(|place| m.is_unique(place))) {
            m.output(ir, place);
            continue;
        }
        m.allocate_outputs([ir]);
    }
    if let [_, ScalarIr::UInt(shared), ScalarIr::UInt(of_each), ScalarIr::UInt(tasks), ..] = op.scalars[..] {
        let workspaces = [shared, of_each * tasks.min(threads as u64)].map(|bytes| m.workspace(bytes));
        m.release_all(workspaces);
    }
    m.release_all(read.into_iter().flatten());
}

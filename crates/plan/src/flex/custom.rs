//! Operations with a kernel of our own (`kernel/` of the model crate), which is not Burn's.
//!
//! Such a kernel reads contiguous tensors and allocates its outputs and what it declares, and nothing else. Its first
//! scalar says how many outputs take the places of the first inputs, where nobody else refers to those. Three more are
//! its workspace while it runs: bytes that all threads share, bytes of each thread, and of how many at most.

use burn_ir::{CustomOpIr, ScalarIr};

use super::contiguous;
use crate::machine::{Handle, Machine};

pub(super) fn run(m: &mut Machine, op: &CustomOpIr, threads: usize) {
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
        let output = m.allocate(&ir.shape[..], ir.dtype);
        m.output(ir, output);
    }
    if let [_, ScalarIr::UInt(shared), ScalarIr::UInt(of_each), ScalarIr::UInt(tasks)] = op.scalars[..] {
        let workspaces = [shared, of_each * tasks.min(threads as u64)].map(|bytes| m.workspace(bytes));
        workspaces.into_iter().for_each(|workspace| m.release(workspace));
    }
    for handle in read.into_iter().flatten() {
        m.release(handle);
    }
}

//! Operations with a kernel of our own (`kernel/` of the model crate), which is not Burn's.
//!
//! Such a kernel reads contiguous tensors and allocates its outputs and what it declares, and nothing else. Its first
//! scalar says whether the first output takes the place of the first input, where nobody else refers to that. Three more
//! are its workspace while it runs: bytes that all threads share, bytes of each thread, and of how many at most.

use burn_ir::{CustomOpIr, ScalarIr};

use super::contiguous;
use crate::machine::{Handle, Machine};

pub(super) fn run(m: &mut Machine, op: &CustomOpIr, threads: usize) {
    let in_place = matches!(op.scalars[..], [ScalarIr::Bool(true), ..]);
    let read = op.inputs.iter().map(|ir| {
        let input = m.input(ir);
        let read = contiguous(m, &input);
        m.release(input);
        read
    });
    let mut read: Vec<Handle> = read.collect();
    let mut outputs = op.outputs.iter();
    if in_place
        && m.is_unique(&read[0])
        && let Some(first) = outputs.next()
    {
        let handle = read.remove(0);
        m.output(first, handle);
    }
    for ir in outputs {
        let output = m.allocate(&ir.shape[..], ir.dtype);
        m.output(ir, output);
    }
    if let [_, ScalarIr::UInt(shared), ScalarIr::UInt(of_each), ScalarIr::UInt(tasks)] = op.scalars[..] {
        let workspaces = [shared, of_each * tasks.min(threads as u64)].map(|bytes| m.workspace(bytes));
        workspaces.into_iter().for_each(|workspace| m.release(workspace));
    }
    for handle in read {
        m.release(handle);
    }
}

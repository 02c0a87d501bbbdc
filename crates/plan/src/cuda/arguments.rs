//! The shapes and strides that kernels read (cubecl-runtime `metadata_cache.rs`): a buffer for each combination, allocated at
//! its first launch and kept for the next ones.

use std::collections::HashSet;

use burn_ir::OperationIr;

use crate::{allocator_sim::AllocatorSim, layout::is_view};

/// A guess of a buffer's size: the sizes and strides of three tensors. A pool rounds it up to its alignment anyway.
const BYTES: u64 = 96;

/// Combinations beyond which the cache forgets the oldest.
const MOST: usize = 4096;

/// The combinations that were launched.
#[derive(Debug, Default)]
pub(super) struct Arguments(HashSet<String>);

impl Arguments {
    /// Allocates the buffer of an operation with new shapes. Views launch nothing, and our own kernels read no shapes.
    pub(super) fn pass(&mut self, m: &mut AllocatorSim, operation: &OperationIr) {
        let launches = match operation {
            OperationIr::BaseFloat(op) | OperationIr::BaseInt(op) | OperationIr::BaseBool(op) => !is_view(op),
            OperationIr::Custom(op) => op.id.starts_with("conv2d"),
            OperationIr::Init(_) | OperationIr::Drop(_) | OperationIr::Distributed(_) => false,
            _ => true,
        };
        if !launches || self.0.len() >= MOST {
            return;
        }
        let shapes: Vec<_> = operation.inputs().chain(operation.outputs()).map(|ir| &ir.shape).collect();
        if self.0.insert(format!("{shapes:?}")) {
            m.keep_small(BYTES, "kernel arguments");
        }
    }
}

//! The largest blocks at a moment.

use oomph_core::{Bytes, Phase};
use serde::{Deserialize, Serialize};

use crate::{block::Block, category::Category, described::PlannedBlocks, timeline::Timeline};

/// Equal blocks of memory and their contents. Unknown texts are empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The number of equal blocks: 2 for the two moments of Adam.
    pub count: usize,
    /// Bytes of each block.
    pub bytes: Bytes,
    /// Their category.
    pub category: Category,
    /// The tensor in them, if known: `layer1.0.conv1.weight`.
    pub tensor: String,
    /// The tensor's shape, if known.
    pub shape: Vec<usize>,
    /// The operation that allocated them: a measurement records no operations, so the plan supplies them. `before the
    /// recording` stands for older memory of unknown origin.
    pub operation: String,
    /// Their stage, layer or scope within one.
    pub scope: String,
    /// The phase they were allocated in.
    pub phase: Phase,
}

impl Holder {
    /// Their size in reports: `2 × 4.50 MiB`.
    pub fn size(&self) -> String {
        if self.count > 1 { format!("{} × {}", self.count, self.bytes) } else { self.bytes.to_string() }
    }

    /// Their contents in reports: `conv1.weight 64×3×3×3`, `conv2d 32×64×32×32`, `–`.
    pub fn what(&self) -> String {
        let name = if self.tensor.is_empty() { &self.operation } else { &self.tensor };
        let shape = self.shape.iter().map(usize::to_string).collect::<Vec<_>>().join("×");
        let known: Vec<_> = [name, &shape].into_iter().filter(|word| !word.is_empty()).cloned().collect();
        if known.is_empty() { "–".into() } else { known.join(" ") }
    }

    /// Their phase and scope in reports: `forward of layer1.0.conv1`.
    pub fn place(&self) -> String {
        if self.scope.is_empty() {
            self.phase.to_string()
        } else {
            format!("{} of {}", self.phase, self.scope)
        }
    }
}

impl Timeline {
    /// The largest blocks after `event`, at most `most` holders. `plan` adds operations and shapes to the blocks of a
    /// measurement, which records sizes, phases and scopes only.
    pub fn holders(&self, event: u32, plan: Option<&Timeline>, most: usize) -> Vec<Holder> {
        let mut found: Vec<Holder> = Vec::with_capacity(most);
        let planned = plan.map(PlannedBlocks::of);
        for index in self.alive_after(event) {
            let holder = self.described(&self.blocks[index], planned.as_ref());
            let is_alike = |known: &Holder| Holder { count: 1, ..known.clone() } == holder;
            match found.iter().position(is_alike) {
                Some(known) => found[known].count += 1,
                None if found.len() < most => found.push(holder),
                // A smaller block equals none of these.
                None if found.last().is_some_and(|last| holder.bytes < last.bytes) => break,
                None => {}
            }
        }
        found
    }

    fn described(&self, block: &Block, planned: Option<&PlannedBlocks<'_>>) -> Holder {
        let scope = self.names.text(block.scope);
        let known = || (self.names.text(block.operation), &*block.shape);
        let (operation, shape) = planned.and_then(|planned| planned.like(block, scope)).unwrap_or_else(known);
        Holder {
            count: 1,
            bytes: Bytes::new(block.bytes),
            category: block.category,
            tensor: self.names.text(block.tensor).to_owned(),
            shape: shape.to_vec(),
            operation: operation.to_owned(),
            scope: scope.to_owned(),
            phase: block.phase,
        }
    }
}

//! What a plan knows of the blocks of a measurement.

use std::collections::HashMap;

use crate::{block::Block, names::Name, timeline::Timeline};

/// The blocks of a plan by scope, size, category and phase. A measurement records no operations and shapes.
pub(crate) struct PlannedBlocks<'a> {
    plan: &'a Timeline,
    /// `None` where planned blocks disagree about operation or shape.
    known: HashMap<Kind<'a>, Option<&'a Block>>,
}

/// Scope, bytes, category and phase.
type Kind<'a> = (&'a str, u64, u8, u8);

fn kind<'a>(block: &Block, scope: &'a str) -> Kind<'a> {
    (scope, block.bytes, block.category as u8, block.phase as u8)
}

impl<'a> PlannedBlocks<'a> {
    pub(crate) fn of(plan: &'a Timeline) -> Self {
        let mut known: HashMap<Kind<'a>, Option<&'a Block>> = HashMap::new();
        for block in &plan.blocks {
            let same = known.entry(kind(block, plan.names.text(block.scope))).or_insert(Some(block));
            let agrees = |other: &&Block| other.operation == block.operation && other.shape == block.shape;
            *same = same.filter(agrees);
        }
        Self { plan, known }
    }

    /// The operation and the shape of a measured block, if all planned blocks like it agree. A block with a tensor's name needs
    /// none.
    pub(crate) fn like(&self, block: &Block, scope: &str) -> Option<(&'a str, &'a [usize])> {
        if block.tensor != Name::NONE || scope.is_empty() {
            return None;
        }
        let like = (*self.known.get(&kind(block, scope))?)?;
        Some((self.plan.names.text(like.operation), &like.shape))
    }
}

impl Timeline {
    /// The timeline of a measurement with the operations and shapes that `plan` knows of its blocks.
    pub(crate) fn described_by(&self, plan: &Self) -> Self {
        let (planned, mut described) = (PlannedBlocks::of(plan), self.clone());
        for block in &mut described.blocks {
            if let Some((operation, shape)) = planned.like(block, self.names.text(block.scope)) {
                block.operation = described.names.of(operation);
                block.shape = shape.to_vec();
            }
        }
        described
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{export::tests::sample, timeline::Origin};

    #[test]
    fn a_measured_block_gets_the_operation_that_all_planned_ones_like_it_have() {
        let plan = sample::step(Origin::Planned);
        let mut measured = sample::step(Origin::Measured);
        for block in &mut measured.blocks {
            (block.operation, block.tensor) = (Name::NONE, Name::NONE);
            block.shape = Vec::new();
        }
        let named = |timeline: &Timeline| {
            let texts = timeline.blocks.iter().map(|block| timeline.names.text(block.operation).to_owned());
            texts.collect::<Vec<_>>()
        };
        let described = measured.described_by(&plan);
        let expected: Vec<_> = plan
            .blocks
            .iter()
            .map(|block| {
                let scoped = block.scope != Name::NONE;
                if scoped { plan.names.text(block.operation).to_owned() } else { String::new() }
            })
            .collect();
        assert!(expected.iter().any(|operation| !operation.is_empty()));
        assert_eq!(named(&described), expected);

        // A second block like the first, of another operation: nobody knows which it is.
        let mut ambiguous = plan.clone();
        let index = expected.iter().position(|operation| !operation.is_empty()).expect("one is named");
        let other = Block { operation: ambiguous.names.of("another"), ..ambiguous.blocks[index].clone() };
        ambiguous.blocks.push(other);
        assert_eq!(named(&measured.described_by(&ambiguous))[index], "");
    }
}

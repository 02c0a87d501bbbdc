//! The categories of a draft's blocks. No byte is lost.

use std::collections::BTreeMap;

use oomph_core::Phase;
use oomph_timeline::{Block, Category, Clock, Draft, Name, Origin, Span, SpanKind, TensorLocation, Timeline};
use proptest::prelude::*;

/// A draft of events at these points, with the stages `stem` and `layer1.0`.
fn draft(points: &[(Phase, &str)]) -> Draft {
    let mut timeline = Timeline::new(Origin::Measured, Clock::Nanoseconds);
    timeline.times = (0..points.len() as u64).collect();
    let points = points.iter().map(|&(phase, scope)| (phase, timeline.names.of(scope))).collect();
    Draft { timeline, points, tensors: Vec::new(), stages: vec!["stem".into(), "layer1.0".into()] }
}

impl Builder for Draft {
    fn block(&mut self, address: u64, bytes: u64, born: u32, died: Option<u32>) -> &mut Self {
        let (phase, scope) = self.points[born as usize];
        self.timeline.blocks.push(Block { died, phase, scope, ..Block::new(address, bytes, born) });
        self
    }

    fn held(&mut self, event: u32, address: u64, category: Category, tensor: &str) -> &mut Self {
        let names = &mut self.timeline.names;
        let (tensor, dtype) = (names.of(tensor), names.of("f32"));
        self.tensors.push(TensorLocation { event, address, category, tensor, shape: vec![2, 3], dtype });
        self
    }
}

trait Builder {
    fn block(&mut self, address: u64, bytes: u64, born: u32, died: Option<u32>) -> &mut Self;
    fn held(&mut self, event: u32, address: u64, category: Category, tensor: &str) -> &mut Self;
}

fn categories(timeline: &Timeline) -> Vec<(u64, Category, u32, Option<u32>)> {
    timeline.blocks.iter().map(|block| (block.address, block.category, block.born, block.died)).collect()
}

fn stages(timeline: &Timeline) -> Vec<(&str, u32, u32)> {
    let spans = timeline.spans_of(SpanKind::Stage);
    spans.map(|span| (timeline.names.text(span.name), span.start, span.end)).collect()
}

use Phase::{Backward, Data, Eval, Forward, Idle, Init, Step};

#[test]
fn without_tensors_the_lifetime_tells_the_category() {
    let points = [
        (Idle, ""),
        (Data, ""),
        (Data, ""),
        (Forward, "stem"),
        (Forward, "stem"),
        (Forward, "stem"),
        (Backward, ""),
        (Step, ""),
        (Init, ""),
    ];
    let mut draft = draft(&points);
    draft.block(0, 8, 0, None); // before
    draft.block(100, 8, 1, Some(7)); // a batch
    draft.block(200, 8, 1, Some(2)); // a staging buffer
    draft.block(300, 8, 3, Some(6)); // kept for backward
    draft.block(400, 8, 3, Some(5)); // an im2col buffer
    draft.block(500, 8, 6, None); // an unnamed gradient
    draft.block(600, 8, 7, Some(8)); // outlives its phase
    draft.block(700, 8, 8, None); // outside of steps
    let seen: Vec<_> = draft.assemble().blocks.iter().map(|block| block.category).collect();
    use Category::{Activations, Gradients, Inputs, Other, Workspace};
    assert_eq!(seen, [Other, Inputs, Workspace, Activations, Workspace, Gradients, Other, Other]);
}

#[test]
fn a_tensor_names_the_block_from_its_birth_and_a_new_category_splits_it() {
    let points = [(Idle, ""), (Backward, ""), (Backward, ""), (Step, ""), (Step, ""), (Idle, "")];
    let mut draft = draft(&points);
    draft.block(1000, 64, 1, Some(5));
    // Notes within the block's lifetime. At one event the first note counts; a repeated category changes nothing.
    draft.held(2, 1016, Category::Gradients, "weight").held(2, 1000, Category::Other, "late");
    draft.held(3, 1000, Category::Gradients, "again").held(4, 1063, Category::OptimizerState, "momentum");
    // Notes beyond the block's last byte, and after it is freed.
    draft.held(4, 1064, Category::Inputs, "miss").held(5, 1000, Category::Inputs, "dead");
    let timeline = draft.assemble();
    let expected = [(1000, Category::Gradients, 1, Some(4)), (1000, Category::OptimizerState, 4, Some(5))];
    assert_eq!(categories(&timeline), expected);
    let tensors: Vec<&str> = timeline.blocks.iter().map(|block| timeline.names.text(block.tensor)).collect();
    assert_eq!(tensors, ["weight", "momentum"]);
    let Block { shape, dtype, .. } = &timeline.blocks[1];
    assert_eq!((shape.as_slice(), timeline.names.text(*dtype)), ([2, 3].as_slice(), "f32"));
}

#[test]
fn a_block_may_reuse_the_address_that_the_same_event_frees() {
    let mut draft = draft(&[(Idle, ""), (Forward, "stem"), (Forward, "stem"), (Idle, "")]);
    draft.block(8, 32, 2, None).block(8, 32, 1, Some(2)).block(8, 16, 2, Some(2));
    draft.held(2, 8, Category::Parameters, "weight");
    let timeline = draft.assemble();
    let weight: Vec<_> = timeline.blocks.iter().filter(|block| block.tensor != Name::NONE).collect();
    assert_eq!((weight.len(), weight[0].born, weight[0].bytes), (1, 2, 32));
}

#[test]
fn events_of_backward_belong_to_the_stage_whose_activation_is_freed_next() {
    let points = [
        (Idle, ""),
        (Forward, "stem.conv"),
        (Forward, "layer1.0.conv1"),
        (Forward, ""),
        (Backward, ""),
        (Backward, ""), // frees layer1.0's
        (Backward, ""),
        (Backward, ""), // frees stem's
        (Backward, ""),
        (Step, ""),
    ];
    let mut draft = draft(&points);
    draft.block(100, 8, 1, Some(7)).block(200, 8, 2, Some(5));
    draft.block(300, 8, 6, None);
    let name = draft.timeline.names.of("step 1");
    draft.timeline.spans.push(Span { kind: SpanKind::Step, name, start: 1, end: 10 });
    let timeline = draft.assemble();
    assert_eq!(stages(&timeline), [("stem", 1, 2), ("layer1.0", 2, 3), ("layer1.0", 4, 6), ("stem", 6, 9)]);
    assert_eq!(timeline.names.text(timeline.blocks[2].scope), "stem");
    let names: Vec<&str> = timeline.spans.iter().map(|span| timeline.names.text(span.name)).collect();
    let expected = ["step 1", "forward", "stem", "layer1.0", "backward", "layer1.0", "stem", "step"];
    assert_eq!(names, expected);
}

#[test]
fn evaluation_batches_are_runs_of_their_own() {
    let mut draft = draft(&[(Idle, ""), (Eval, "stem"), (Eval, "stem"), (Eval, "stem"), (Eval, "stem")]);
    draft.block(1, 8, 1, Some(2)).block(2, 8, 2, Some(3));
    for start in [1, 3] {
        draft.timeline.spans.push(Span { kind: SpanKind::Step, name: Name::NONE, start, end: start + 2 });
    }
    let timeline = draft.assemble();
    assert_eq!(stages(&timeline), [("stem", 1, 3), ("stem", 3, 5)]);
    let seen: Vec<_> = timeline.blocks.iter().map(|block| block.category).collect();
    assert_eq!(seen, [Category::Workspace, Category::Other]);
}

#[test]
fn an_empty_draft_is_an_empty_timeline() {
    assert_eq!(draft(&[]).assemble().blocks, []);
}

/// One event.
#[derive(Clone, Debug)]
enum Happens {
    Alloc { bytes: u64 },
    Free { which: prop::sample::Index },
    Hold { which: prop::sample::Index, offset: prop::sample::Index, category: usize },
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        3 => (1u64..64).prop_map(|bytes| Happens::Alloc { bytes }),
        2 => any::<prop::sample::Index>().prop_map(|which| Happens::Free { which }),
        2 => (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..Category::ALL.len())
            .prop_map(|(which, offset, category)| Happens::Hold { which, offset, category }),
    ]
}

/// A valid draft (live blocks do not overlap) and its raw level after each event.
fn replay(events: Vec<(Happens, usize)>) -> (Draft, Vec<u64>) {
    let scopes = ["", "stem", "layer1.0.conv1"];
    let place = |turn: &usize| (Phase::ALL[turn / 3 % Phase::ALL.len()], scopes[turn % 3]);
    let points: Vec<_> =
        std::iter::once((Idle, "")).chain(events.iter().map(|(_, turn)| place(turn))).collect();
    let mut draft = draft(&points);
    // Live blocks by address: the index in the draft.
    let mut live: BTreeMap<u64, usize> = BTreeMap::new();
    let mut levels = vec![0];
    for (event, (happens, _)) in (1..).zip(events) {
        let pick = |which: prop::sample::Index| live.values().nth(which.index(live.len().max(1))).copied();
        match happens {
            Happens::Alloc { bytes } => {
                let mut address = 0;
                for (&start, &index) in &live {
                    if address + bytes <= start {
                        break;
                    }
                    address = start + draft.timeline.blocks[index].bytes;
                }
                draft.block(address, bytes, event, None);
                live.insert(address, draft.timeline.blocks.len() - 1);
            }
            Happens::Free { which } => {
                if let Some(index) = pick(which) {
                    draft.timeline.blocks[index].died = Some(event);
                    live.remove(&draft.timeline.blocks[index].address);
                }
            }
            Happens::Hold { which, offset, category } => {
                if let Some(index) = pick(which) {
                    let Block { address, bytes, .. } = draft.timeline.blocks[index];
                    let inside = address + offset.index(bytes as usize) as u64;
                    draft.held(event, inside, Category::ALL[category], &index.to_string());
                }
            }
        }
        levels.push(live.values().map(|&index| draft.timeline.blocks[index].bytes).sum());
    }
    (draft, levels)
}

proptest! {
    #[test]
    fn categories_add_up_to_the_bytes_in_use(
        events in prop::collection::vec((happens(), 0..60usize), 0..120),
    ) {
        // Phases span several events.
        let mut turn = 0;
        let events = events.into_iter().map(|(happens, jump)| {
            turn += usize::from(jump > 50);
            (happens, turn)
        });
        let (draft, expected) = replay(events.collect());
        let (blocks, tensors) = (draft.timeline.blocks.clone(), draft.tensors.clone());
        let timeline = draft.assemble();
        let levels: Vec<u64> = timeline.levels().iter().map(|level| level.total().get()).collect();
        prop_assert_eq!(levels, expected);
        prop_assert!(timeline.blocks.is_sorted_by_key(|block| block.born));
        // Each tensor names its block, unless an earlier tensor at the same event has named it.
        for held in tensors {
            let text = timeline.names.text(held.tensor);
            let made_for: usize = text.parse().unwrap();
            let found = timeline.blocks.iter().find(|block| {
                block.address == blocks[made_for].address
                    && block.born <= held.event
                    && block.died.is_none_or(|died| died > held.event)
            });
            prop_assert!(found.is_some_and(|block| timeline.names.text(block.tensor) == text));
        }
        // The pieces of a block follow each other without a gap.
        for raw in blocks {
            let mut at = raw.born;
            let end = raw.died.unwrap_or(u32::MAX);
            while at != end {
                let next = timeline.blocks.iter().find(|block| (block.address, block.born) == (raw.address, at));
                let next = next.expect("a piece that begins where the one before ended");
                prop_assert_eq!(next.bytes, raw.bytes);
                at = next.died.unwrap_or(u32::MAX);
            }
        }
    }
}

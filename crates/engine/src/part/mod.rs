//! The stages on one device: forward, backward, recompute, evaluation.

mod evaluate;
mod model_part;
mod part_beside;
mod release;
mod segments;
mod step_context;
mod step_undo;
mod token_chunks;

pub use evaluate::{
    Evaluated, EvaluatedModel, compare_evaluated, evaluate_in_chunks, evaluate_placed, evaluate_stages,
};
pub(crate) use model_part::{ModelPart, PartOutcome, PartSetup};
pub(crate) use release::{Release, ReleaseRules, STEP, ShardedRelease};
pub(crate) use segments::{Position, Segments};
pub(crate) use step_context::StepContext;
pub(crate) use step_undo::StepUndo;
pub use step_undo::UndoMode;
pub use token_chunks::TokenChunks;

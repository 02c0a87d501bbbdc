//! The stages on one device: forward, backward, recompute, evaluation.

mod evaluate;
mod model_part;
mod part_beside;
mod release;
mod segments;
mod step_context;
mod step_undo;

pub use evaluate::{Evaluated, EvaluatedModel, compare_evaluated, evaluate_placed, evaluate_stages};
pub(crate) use model_part::{ModelPart, PartOutcome, PartSetup};
pub(crate) use release::{Release, ReleaseRules, STEP, ShardedRelease};
pub(crate) use segments::{Position, Segments};
pub(crate) use step_context::StepContext;
pub(crate) use step_undo::StepUndo;
pub use step_undo::UndoMode;

//! The stages on one device: forward, backward, recompute, evaluation.

mod evaluate;
mod loss;
mod model_part;
mod segments;
mod stage_runner;
mod step_undo;

pub use evaluate::{Evaluated, compare_evaluated, evaluate_placed, evaluate_stages};
pub(crate) use model_part::{ModelPart, PartOutcome, PartSetup, StepContext};
pub(crate) use segments::{Position, Segments};
pub(crate) use step_undo::StepUndo;
pub use step_undo::UndoMode;

//! Predicts the memory of a training step from its recorded operations; nothing is executed.

mod backend;
mod flex;
mod layout;
mod machine;
mod recording;
mod replay;

pub use backend::Backend;
pub use recording::{Note, Noted, Recording};
pub use replay::{Head, replay};

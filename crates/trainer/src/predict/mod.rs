//! Predictions of a trained model: for images, or of the continuation of a text.

mod images;
mod sampling;
mod text;

pub use images::{Predicted, predict_images};
pub use sampling::Sampling;
pub use text::continue_text;

//! Predictions of a trained model: for images, or of the continuation of a text.

mod images;
mod text;

pub use images::{Predicted, predict_images};
pub use text::{Sampling, continue_text};

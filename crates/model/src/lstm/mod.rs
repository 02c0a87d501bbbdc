mod classifier;
mod language;
mod settings;
mod stage;

pub use classifier::lstm;
pub use language::lstm_lm;
use stage::recurrent;

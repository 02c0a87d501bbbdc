//! What an evaluation tells beside its loss: how right a classifier is with each class, how far off a regression is.
//!
//! ```
//! use oomph_core::TargetSpec;
//! use oomph_data::Targets;
//! use oomph_scores::Scores;
//!
//! // Two samples of class 1, of three classes. The second is taken for class 0.
//! let mut scores = Scores::of(&TargetSpec::Class { count: 3 }).expect("few classes have scores");
//! scores.add(&[0.1, 0.8, 0.1, 0.5, 0.3, 0.2], &Targets::Classes(vec![1, 1]));
//! let Scores::Classes(scores) = scores else { panic!("a classification") };
//! assert_eq!(scores.accuracy(), 0.5);
//! assert_eq!(scores.of_classes()[1].recall, 0.5);
//! ```

mod average_precision;
mod averages;
mod classes;
mod labels;
mod scores;
mod values;

pub use averages::Averages;
pub use classes::{ClassScore, ClassScores, has_top_5};
pub use labels::{LabelScore, LabelScores};
pub use scores::Scores;
pub use values::ValueScores;

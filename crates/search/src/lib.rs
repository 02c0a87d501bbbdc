//! Hyperparameter search by asking and telling.
//!
//! - [`Space`]: the parameters of a search, each with its [`Domain`]; [`Point`]: one value for each active parameter.
//! - [`Trial`]: a point that was tried, or is being tried, and what is known of it.
//! - [`Sampler`]: proposes points for a trial: [`Tpe`], [`Random`], [`Grid`], [`Sobol`].
//! - [`Scheduler`]: says what a free worker does next, and whether a trial continues: [`Asha`], [`Hyperband`], [`Median`],
//!   [`ToTheEnd`].
//!
//! ```
//! use oomph_search::{Direction, Domain, Draw, Parameter, Sampler, Space, Tpe, Trial, TrialState};
//!
//! let rate = Domain::Float { low: 1e-4, high: 0.1, step: None, log: true };
//! let width = Domain::Integer { low: 8, high: 64, step: 8, log: false };
//! let space = Space::new(vec![Parameter::new("rate", rate), Parameter::new("width", width)])?;
//! let mut trials: Vec<Trial> = Vec::new();
//! for number in 0..30 {
//!     // A function of the seed, the number, and the trials so far. The best comes first.
//!     let points = Tpe::default().propose(&space, &trials, Direction::Minimize, Draw { seed: 1, number, round: 0 });
//!     let point = points[0].clone();
//!     let loss = (point["rate"].ln() + 5.0).abs() + 1.0 / point["width"];
//!     trials.push(Trial { state: TrialState::Complete, value: Some(loss), ..Trial::new(number, point) });
//! }
//! assert!(trials.iter().any(|trial| trial.value < Some(0.3)));
//! # Ok::<(), oomph_search::SearchError>(())
//! ```
//!
//! It knows no trainer, no files and no clock.

mod draw;
mod error;
mod sampler;
mod scheduler;
mod space;
mod trial;

pub use draw::Draw;
pub use error::SearchError;
pub use sampler::{Grid, Random, Sampler, Sobol, Tpe, with_fixed};
pub use scheduler::{Asha, Hyperband, Median, Next, Rungs, Scheduler, ToTheEnd, Verdict};
pub use space::{Choice, Domain, Parameter, Point, Space, When};
pub use trial::{Direction, Trial, TrialState};

//! A batch cut into micro-batches takes the same step as a whole one.

use oomph_engine::record::model_record;
use oomph_trainer::{Session, new_stepper};

use crate::{compare::Comparison, digits, host};

/// Relative: the same sums in another order, over at most 16 samples.
const TOLERANCE: f64 = 1e-5;
const BATCH: usize = 16;
/// So large that a parameter after the step is its gradient but for a thousandth, and rounding the parameter loses
/// nothing of it.
const LEARNING_RATE: f64 = 1e6;

#[test]
fn the_step_does_not_depend_on_the_micro_batch() {
    // 3, 5 and 7 leave a smaller last one. A model without batch norm, whose statistics are those of a micro-batch.
    for clipping in ["", ", clip_global_norm = 0.01"] {
        let whole = Step::take(BATCH, clipping);
        for micro_batch in [1, 3, 5, 7] {
            let what = format!("micro-batch {micro_batch} of {BATCH}{clipping}");
            Step::take(micro_batch, clipping).compare(&whole, &what);
        }
    }
}

/// What one step left.
struct Step {
    loss: f64,
    correct: f64,
    parameters: Vec<(String, Vec<f32>)>,
}

impl Step {
    /// The first step of training with plain SGD.
    fn take(micro_batch: usize, clipping: &str) -> Self {
        let session = session(micro_batch, clipping);
        let batch = digits::batches(&session, 1).remove(0);
        let mut stepper = new_stepper(&session).unwrap().0;
        let outcome = stepper.step(batch, 0, LEARNING_RATE, &*session.task).unwrap();
        assert_eq!(outcome.samples, BATCH);
        let record = model_record(&stepper.model).unwrap();
        Self {
            loss: host::scalar(outcome.loss.unwrap()),
            correct: host::scalar(outcome.correct.unwrap()),
            parameters: record.into_iter().map(|(name, tensor)| (name, tensor.values)).collect(),
        }
    }

    fn compare(&self, whole: &Self, what: &str) {
        let mut comparison = Comparison::new(what, TOLERANCE);
        comparison.error("loss", self.loss / whole.loss - 1.0);
        assert_eq!(self.correct, whole.correct, "{what}");
        for ((name, found), (_, expected)) in self.parameters.iter().zip(&whole.parameters) {
            let expected: Vec<_> = expected.iter().copied().map(f64::from).collect();
            comparison.elements(name, found, &expected);
        }
        comparison.finish();
    }
}

fn session(micro_batch: usize, clipping: &str) -> Session {
    digits::session(&format!(
        "model = {{ name = 'lstm', hidden = 12, layers = 2 }}
         data = {{ source = 'digits', layout = 'rows', workers = 0 }}
         train = {{ batch = {BATCH} }}
         optimizer = {{ name = 'sgd'{clipping} }}
         memory = {{ micro_batch = {micro_batch} }}"
    ))
}

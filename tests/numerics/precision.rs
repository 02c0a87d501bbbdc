//! 16 bits in forward and backward, 32 where it matters.

use oomph_engine::record::model_record;
use oomph_trainer::new_stepper;

use crate::{digits, host};

const RESNET: &str = "model = { name = 'resnet18', width = 8, stem = 'small' }
    data = { source = 'digits', workers = 0 }
    train = { batch = 32 }
    optimizer = { name = 'sgd' }";

const LSTM: &str = "model = { name = 'lstm', hidden = 16, layers = 2 }
    data = { source = 'digits', layout = 'rows', workers = 0 }
    train = { batch = 32 }
    optimizer = { name = 'sgd' }";

const GRU: &str = "model = { name = 'gru', hidden = 16, layers = 2 }
    data = { source = 'digits', layout = 'rows', workers = 0 }
    train = { batch = 32 }
    optimizer = { name = 'sgd' }";

/// The loss of the first step, and how far it moves each parameter.
struct Step {
    loss: f64,
    moves: Vec<(String, Vec<f64>)>,
}

impl Step {
    fn take(model: &str, memory: &str) -> Self {
        let session = digits::session(&format!("{model}\nmemory = {{ {memory} }}"));
        let mut stepper = new_stepper(&session).unwrap().0;
        let before = model_record(&stepper.model).unwrap();
        let batch = digits::batches(&session, 1).remove(0);
        let outcome = stepper.step(batch, 0, 1.0, &*session.task).unwrap();
        let after = model_record(&stepper.model).unwrap();
        let moves = after.into_iter().map(|(name, after)| {
            let before = &before[&name].values;
            let moved = after.values.iter().zip(before).map(|(after, before)| f64::from(after - before));
            (name, moved.collect())
        });
        Self { loss: host::scalar(outcome.loss.unwrap()), moves: moves.collect() }
    }

    /// The norm of the difference of all moves, by that of the moves.
    fn error(&self, exact: &Self) -> f64 {
        let pairs = self.moves.iter().zip(&exact.moves);
        let pairs = pairs.flat_map(|((_, found), (_, exact))| found.iter().zip(exact));
        let (error, norm) = pairs.fold((0.0, 0.0), |(error, norm), (found, exact)| {
            (error + (found - exact).powi(2), norm + exact.powi(2))
        });
        (error / norm).sqrt()
    }
}

#[test]
fn gradients_of_sixteen_bits_are_those_of_thirty_two_but_for_rounding() {
    // A number of bf16 has 8 bits, one of fp16 11: roundings of 2⁻⁹ and 2⁻¹² of it, a few dozen one after another. A
    // ResNet at its beginning makes much of them: PyTorch's autocast moves the gradient of such a one by 0.32 and 0.12
    // of its norm (torchvision's resnet18 with a 3×3 stem on 32 images of 8×8, PyTorch 2.15, CPU).
    for (model, name, bf16, fp16) in
        [(RESNET, "resnet", 0.45, 0.18), (LSTM, "lstm", 0.02, 0.0025), (GRU, "gru", 0.02, 0.0025)]
    {
        let exact = Step::take(model, "");
        for (precision, of_loss, of_moves) in [("bf16", 0.01, bf16), ("fp16", 0.001, fp16)] {
            for lean in [true, false] {
                let rounded = Step::take(model, &format!("precision = '{precision}', lean = {lean}"));
                let loss = (rounded.loss / exact.loss - 1.0).abs();
                let moves = rounded.error(&exact);
                let what = format!("{name} {precision} lean={lean}: loss {loss:.1e}, moves {moves:.1e}");
                assert!(moves > 1e-5, "nothing was rounded: {what}");
                assert!(loss < of_loss && moves < of_moves, "{what}");
            }
        }
    }
}

#[test]
fn lean_layers_have_the_gradients_of_burns_operations() {
    // What is rounded in another order, to 2⁻²⁴; a ResNet at its beginning makes much of it, as above.
    for (model, name) in [(RESNET, "resnet"), (LSTM, "lstm"), (GRU, "gru")] {
        let [burns, lean] = ["lean = false", "lean = true"].map(|memory| Step::take(model, memory));
        let (loss, moves) = ((lean.loss / burns.loss - 1.0).abs(), lean.error(&burns));
        assert!(loss < 1e-6 && moves < 1e-5, "{name}: loss {loss:.1e}, moves {moves:.1e}");
    }
}

//! 16 bits in forward and backward, 32 where it matters.

use burn::tensor::{DType, Device, Tensor, TensorData};
use oomph_config::Precision;
use oomph_core::Key;
use oomph_engine::record::model_record;
use oomph_model::{Init, Kernels, Pass, Policy, layers::Linear};
use oomph_trainer::new_stepper;

use crate::{compare::Comparison, digits, host};

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

#[test]
fn a_linear_layer_in_sixteen_bits_takes_an_input_of_thirty_two() {
    // A model of one's own adds to activations in 32 bits; its gradients have 32 bits too.
    let device = Device::flex().autodiff();
    let layer = Linear::new(&Init::new(&device, 0), [24, 10]);
    let numbers = (0..7 * 24).map(|at| (at as f32).sin()).collect();
    let numbers = TensorData::new::<f32, _>(numbers, [7, 24]);
    for (precision, bits) in [(Precision::Bf16, 8), (Precision::Fp16, 11)] {
        for (kernels, lean) in [(Kernels::Cpu, true), (Kernels::Composed, true), (Kernels::Composed, false)] {
            let what = format!("{precision:?} {kernels:?} lean={lean}");
            let input = Tensor::<2>::from_data(numbers.clone(), &device).require_grad();
            let gradients = |precision| {
                let policy = Policy { precision, kernels, lean, ..Policy::default() };
                let mut pass = Pass::train(Key::new(0)).with_policy(policy);
                let made = policy.widen(layer.forward(input.clone(), &mut pass).unwrap());
                made.square().sum().backward()
            };
            let (exact, rounded) = (gradients(Precision::Fp32), gradients(precision));
            assert_eq!(input.grad(&rounded).unwrap().dtype(), DType::F32, "{what}");
            // A gradient is a sum of products of three rounded numbers, the output among them.
            let mut comparison = Comparison::new(what, 8.0 * f64::powi(2.0, -bits));
            for (name, leaf) in [("input", &input), ("weight", &layer.weight.val())] {
                let exact: Vec<f64> = host::gradient(leaf, &exact).into_iter().map(f64::from).collect();
                comparison.elements(name, &host::gradient(leaf, &rounded), &exact);
            }
            comparison.finish();
        }
    }
}

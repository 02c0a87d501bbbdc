//! What is computed again in backward changes no bit of what is trained.

use oomph_engine::record::model_record;
use oomph_trainer::new_stepper;

use crate::{digits, host};

const STEPS: usize = 3;

const RESNET: &str = "model = { name = 'resnet18', width = 8, stem = 'small' }
    data = { source = 'digits', workers = 0 }
    train = { batch = 16 }
    optimizer = { name = 'sgd', momentum = 0.9 }";

const LSTM: &str = "model = { name = 'lstm', hidden = 12, layers = 3, dropout = 0.3 }
    data = { source = 'digits', layout = 'rows', workers = 0 }
    train = { batch = 16 }
    optimizer = { name = 'adam' }";

const GRU: &str = "model = { name = 'gru', hidden = 12, layers = 3, dropout = 0.3 }
    data = { source = 'digits', layout = 'rows', workers = 0 }
    train = { batch = 16 }
    optimizer = { name = 'adam' }";

/// Its head is tied to its embedding, and its state goes from batch to batch.
const LANGUAGE: &str = "model = { name = 'lstm-lm', hidden = 12, layers = 2, dropout = 0.3, tied = true }
    data = { source = 'synthetic', kind = 'tokens', vocabulary = 10, steps = 7, workers = 0 }
    train = { batch = 16 }
    optimizer = { name = 'adam' }";

#[test]
fn stages_computed_again_train_to_the_same_bits() {
    for (model, named) in [
        (RESNET, "['layer1', 'layer3.0']"),
        (LSTM, "['lstm.1']"),
        (GRU, "['gru.1']"),
        (LANGUAGE, "['embedding', 'lstm.1']"),
    ] {
        for lean in [true, false] {
            let kept = train(model, lean, "'none'");
            for recompute in ["'stages'", named, "'ops'"] {
                let again = train(model, lean, recompute);
                assert!(kept == again, "recompute = {recompute}, lean = {lean}:\n{model}");
            }
        }
    }
}

/// The bits of losses, parameters and running statistics.
fn train(model: &str, lean: bool, recompute: &str) -> Vec<(String, Vec<u32>)> {
    let session = digits::session(&format!("{model}\nmemory = {{ lean = {lean}, recompute = {recompute} }}"));
    let mut stepper = new_stepper(&session).unwrap().0;
    let mut bits = Vec::new();
    for (step, batch) in digits::batches(&session, STEPS).into_iter().enumerate() {
        let outcome = stepper.step(batch, step, 0.05, &*session.task).unwrap();
        let loss = host::scalar(outcome.loss.unwrap()) as f32;
        bits.push((format!("loss {step}"), vec![loss.to_bits()]));
    }
    let record = model_record(&stepper.model).unwrap();
    bits.extend(
        record
            .into_iter()
            .map(|(name, tensor)| (name, tensor.values.iter().map(|value| value.to_bits()).collect())),
    );
    bits
}

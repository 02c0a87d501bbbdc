//! Recurrent language models against PyTorch's: two chunks of text with the state carried between, the head tied and not.

use burn::tensor::{Device, Int, Tensor, TensorData};
use oomph_config::{ConfigError, Section};
use oomph_core::{InputSpec, Key, SampleSpec, TargetSpec};
use oomph_engine::{
    record::model_record,
    task::{Classification, DeviceTargets, Task},
};
use oomph_model::{
    AnyTensor, Architecture, Carried, Init, Kernels, Pass, Policy, Stages, autodiff,
    recurrent::{gru_lm, lstm_lm},
};
use oomph_trainer::new_stepper;

use crate::{
    compare::Comparison,
    digits,
    golden::Golden,
    host,
    network::{RATE, golden_optimizer},
};

/// Relative, by norm. PyTorch's own float32 is within 1e-6 of float64.
const TOLERANCE: f64 = 1e-5;
const BATCH: usize = 3;
const STEPS: usize = 9;
/// So few that a lean layer on the CPU reads tokens, and the other ones their vectors.
const TOKENS: usize = 6;
const CHUNKS: usize = 2;

/// A language model and its golden values.
#[derive(Clone, Copy)]
struct Language {
    read: fn(&Section) -> Result<Architecture, ConfigError>,
    file: &'static str,
    /// Whether each chunk is a step of the optimizer.
    trains: bool,
}

#[test]
fn a_language_model_of_lstms_gives_the_losses_and_gradients_of_torch() {
    check_all(Language { read: lstm_lm, file: "language", trains: false });
}

#[test]
fn a_language_model_of_grus_gives_the_losses_gradients_and_steps_of_torch() {
    check_all(Language { read: gru_lm, file: "gru", trains: true });
}

fn check_all(language: Language) {
    for tied in [false, true] {
        for (lean, kernels) in [(true, Kernels::Cpu), (true, Kernels::Composed), (false, Kernels::Composed)] {
            check(language, tied, Policy { lean, kernels, ..Policy::default() });
        }
    }
}

fn check(language: Language, tied: bool, policy: Policy) {
    let golden = Golden::open(language.file);
    let of = if tied { "tied" } else { "untied" };
    let mut model = model(language, &golden, of, tied);
    let what = format!("{} {of} lean={} {:?}", language.file, policy.lean, policy.kernels);
    let mut comparison = Comparison::new(what, TOLERANCE);
    let lean = policy.lean.then_some(policy.kernels);
    let task = Classification { lean, ..Classification::default() };
    let mut optimizer = golden_optimizer(policy.kernels);
    let (mut carried, mut losses) = (Carried::new(), Vec::new());
    for chunk in 0..CHUNKS {
        let (input, target) = texts(&golden, chunk);
        let mut pass = Pass::train(Key::new(0)).with_policy(policy).with_carried(carried);
        let logits = model.forward(input.into(), &mut pass).unwrap();
        carried = pass.take_carried().expect("the pass carries");
        let key = format!("logits{chunk}");
        comparison.norm(&key, &logits.to_host().unwrap(), &golden.get(&format!("{of}.{key}")).values);
        let loss = task.loss(&logits, &DeviceTargets::Tokens(target)).unwrap();
        drop(logits);
        losses.push(host::scalar(loss.clone()));
        let gradients = autodiff::backward(loss, &model);
        let prefix = format!("{of}.grad{chunk}.");
        assert_eq!(gradients.len(), golden.names_below(&prefix).len());
        for (name, gradient) in &gradients {
            let key = format!("{prefix}{}", torch_name(name));
            comparison.norm(&key, &gradient.clone().to_host().unwrap(), &golden.get(&key).values);
        }
        if language.trains {
            optimizer.step(RATE, &mut model, gradients);
        }
    }
    model.visit(&mut |info, tensor| {
        let key = if language.trains { format!("{of}.after.") } else { format!("{of}.") };
        let key = format!("{key}{}", torch_name(info.name));
        comparison.norm(&key, &tensor.inner().to_host().unwrap(), &golden.get(&key).values);
    });
    for (found, expected) in losses.iter().zip(&golden.get(&format!("{of}.loss")).values) {
        comparison.error("loss", found / expected - 1.0);
    }
    let perplexity = (losses.iter().sum::<f64>() / CHUNKS as f64).exp();
    comparison.error("perplexity", perplexity / golden.get(&format!("{of}.perplexity")).values[0] - 1.0);
    comparison.finish();
}

/// The built-in model with PyTorch's weights.
fn model(language: Language, golden: &Golden, of: &str, tied: bool) -> Stages {
    let settings = Section::from_toml("model", &format!("hidden = 7\nlayers = 2\ntied = {tied}")).unwrap();
    let spec = SampleSpec {
        input: InputSpec::Tokens { steps: STEPS, vocabulary: TOKENS },
        target: TargetSpec::Tokens { steps: STEPS, vocabulary: TOKENS },
    };
    let device = Device::flex().autodiff();
    let mut model = (language.read)(&settings).unwrap().build(&spec, &Init::new(&device, 0)).unwrap();
    model.map(&mut |info, tensor| {
        let stored = golden.get(&format!("{of}.{}", torch_name(info.name)));
        assert_eq!(stored.shape, tensor.dims(), "{}", info.name);
        AnyTensor::floats(stored.floats(), &stored.shape, &Device::flex()).tracked(info.trainable)
    });
    model
}

/// What a chunk is given, and what it has to tell.
fn texts(golden: &Golden, chunk: usize) -> (Tensor<2, Int>, Tensor<2, Int>) {
    let tokens: Vec<_> = golden.get("tokens").values.iter().map(|token| *token as i32).collect();
    let from = |shift: usize| {
        let rows = tokens.chunks(CHUNKS * STEPS + 1);
        let data: Vec<i32> = rows.flat_map(|row| row[chunk * STEPS + shift..][..STEPS].to_vec()).collect();
        Tensor::from_data(TensorData::new(data, [BATCH, STEPS]), &Device::flex().autodiff())
    };
    (from(0), from(1))
}

/// What PyTorch's example calls the parameter.
fn torch_name(name: &str) -> String {
    match name.split('.').collect::<Vec<_>>()[..] {
        ["embedding", "embedding", "weight"] => "encoder.weight".into(),
        ["lstm" | "gru", index, "layer", leaf] => format!("rnn.{leaf}_l{index}"),
        ["head", leaf] => format!("decoder.{leaf}"),
        _ => panic!("the language model has no parameter `{name}` that this test knows"),
    }
}

const MODELS: [&str; 2] = ["lstm-lm", "gru-lm"];

#[test]
fn state_is_carried_by_row_whatever_the_micro_batch() {
    for model in MODELS {
        let whole = train(model, 16);
        for micro_batch in [3, 5, 16] {
            let what = format!("{model} carried in micro-batches of {micro_batch}");
            let mut comparison = Comparison::new(what, TOLERANCE);
            for ((name, found), (_, expected)) in train(model, micro_batch).iter().zip(&whole) {
                comparison.norm(name, found, &expected.iter().copied().map(f64::from).collect::<Vec<_>>());
            }
            comparison.finish();
        }
    }
}

#[test]
fn what_is_carried_is_what_trains() {
    for model in MODELS {
        let carried = train(model, 16);
        let session = session(model, 16, ", carry = false");
        assert!(!session.source.is_continuous());
        assert_ne!(carried, steps(&session));
    }
}

/// Losses, the state that was left, and parameters after some steps.
fn train(model: &str, micro_batch: usize) -> Vec<(String, Vec<f32>)> {
    steps(&session(model, micro_batch, ""))
}

fn session(model: &str, micro_batch: usize, data: &str) -> oomph_trainer::Session {
    digits::session(&format!(
        "model = {{ name = '{model}', hidden = 12, layers = 2, tied = true }}
         data = {{ source = 'synthetic', kind = 'tokens', vocabulary = 10, steps = 6, workers = 0{data} }}
         train = {{ batch = 16 }}
         optimizer = {{ name = 'sgd', lr = 1.0 }}
         memory = {{ micro_batch = {micro_batch} }}"
    ))
}

fn steps(session: &oomph_trainer::Session) -> Vec<(String, Vec<f32>)> {
    let mut stepper = new_stepper(session).unwrap().0;
    let mut found = Vec::new();
    for (step, batch) in digits::batches(session, 4).into_iter().enumerate() {
        let outcome = stepper.step(batch, step, 1.0, &*session.task).unwrap();
        found.push((format!("loss {step}"), host::values(outcome.loss.unwrap())));
    }
    for (name, tensor) in stepper.carried.iter().flat_map(Carried::tensors) {
        assert_eq!(tensor.dims(), [16, 12], "{name}");
        found.push((name.clone(), tensor.to_host().unwrap()));
    }
    found.extend(
        model_record(&stepper.model).unwrap().into_iter().map(|(name, tensor)| (name, tensor.values)),
    );
    found
}

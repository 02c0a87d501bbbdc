//! Decoder language models against PyTorch's: logits, loss, gradients, and two steps of AdamW.

use burn::tensor::{Device, Int, Tensor, TensorData};
use oomph_config::{Config, Section};
use oomph_core::{InputSpec, Key, SampleSpec, TargetSpec};
use oomph_engine::{
    optimizer::Optimizer,
    task::{Classification, DeviceTargets, Task},
};
use oomph_model::{AnyTensor, Init, Kernels, Pass, Policy, Stages, autodiff, gpt};

use crate::{compare::Comparison, golden::Golden, host};

/// Relative, by norm.
const TOLERANCE: f64 = 1e-5;
const BATCH: usize = 3;
const STEPS: usize = 9;
const TOKENS: usize = 11;

/// The variants of `tools/golden/transformer.py`, and their settings.
const VARIANTS: [(&str, &str); 3] = [
    ("gpt2", "feed_forward = 40"),
    ("llama", "preset = 'llama'\nkey_heads = 2\nfeed_forward = 28"),
    ("mixed", "key_heads = 1\nfeed_forward = 40\nactivation = 'gelu'\npositions = 'rotary'\ntied = false"),
];

#[test]
fn decoders_give_the_gradients_and_steps_of_torch() {
    for (variant, settings) in VARIANTS {
        for (lean, kernels) in [(true, Kernels::Cpu), (true, Kernels::Composed), (false, Kernels::Composed)] {
            check(variant, settings, Policy { lean, kernels, ..Policy::default() });
        }
    }
}

fn check(variant: &str, settings: &str, policy: Policy) {
    let golden = Golden::open("gpt");
    let mut model = model(&golden, variant, settings);
    let what = format!("{variant} lean={} {:?}", policy.lean, policy.kernels);
    let mut comparison = Comparison::new(what, TOLERANCE);
    let task = Classification { lean: policy.lean.then_some(policy.kernels), ..Classification::default() };
    let config = "optimizer = { name = 'adamw', lr = 0.01, weight_decay = 0.1, epsilon = 1e-4 }";
    let mut optimizer = Optimizer::new(&Config::from_toml("x", config).unwrap().optimizer, policy.kernels);
    for step in 0..2 {
        let (input, target) = texts(&golden);
        let mut pass = Pass::train(Key::new(0)).with_policy(policy);
        let logits = model.forward(input.into(), &mut pass).unwrap();
        let loss = task.loss(&logits, &DeviceTargets::Tokens(target)).unwrap();
        let found = (logits.to_host().unwrap(), host::scalar(loss.clone()));
        drop(logits);
        let gradients = autodiff::backward(loss, &model);
        if step == 0 {
            let expected = |key: &str| &golden.get(&format!("{variant}.{key}")).values;
            comparison.norm("logits", &found.0, expected("logits"));
            comparison.error("loss", found.1 / expected("loss")[0] - 1.0);
            assert_eq!(gradients.len(), golden.names_below(&format!("{variant}.grad.")).len());
            for (name, gradient) in &gradients {
                let key = format!("grad.{name}");
                comparison.norm(&key, &gradient.clone().to_host().unwrap(), expected(&key));
            }
        }
        optimizer.step(0.01, &mut model, gradients);
    }
    model.visit(&mut |info, tensor| {
        let key = format!("{variant}.after.{}", info.name);
        comparison.norm(&key, &tensor.inner().to_host().unwrap(), &golden.get(&key).values);
    });
    comparison.finish();
}

/// The built-in model with PyTorch's weights, which have the same names.
fn model(golden: &Golden, variant: &str, settings: &str) -> Stages {
    let settings = format!("layers = 2\nhidden = 24\nheads = 4\n{settings}");
    let settings = Section::from_toml("model", &settings).unwrap();
    let spec = SampleSpec {
        input: InputSpec::Tokens { steps: STEPS, vocabulary: TOKENS },
        target: TargetSpec::Tokens { steps: STEPS, vocabulary: TOKENS },
    };
    let device = Device::flex().autodiff();
    let mut model = gpt(&settings).unwrap().build(&spec, &Init::new(&device, 0)).unwrap();
    model.map(&mut |info, tensor| {
        let stored = golden.get(&format!("{variant}.{}", info.name));
        assert_eq!(stored.shape, tensor.dims(), "{}", info.name);
        AnyTensor::floats(stored.floats(), &stored.shape, &Device::flex()).tracked(info.trainable)
    });
    model
}

/// What the model is given, and what it has to tell.
fn texts(golden: &Golden) -> (Tensor<2, Int>, Tensor<2, Int>) {
    let tokens: Vec<_> = golden.get("tokens").values.iter().map(|token| *token as i32).collect();
    let from = |shift: usize| {
        let data: Vec<i32> = tokens.chunks(STEPS + 1).flat_map(|row| row[shift..][..STEPS].to_vec()).collect();
        Tensor::from_data(TensorData::new(data, [BATCH, STEPS]), &Device::flex().autodiff())
    };
    (from(0), from(1))
}

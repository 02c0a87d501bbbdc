//! Transformers against PyTorch's: logits, loss, gradients, and two steps of AdamW.

use burn::tensor::{Device, Int, Tensor, TensorData};
use oomph_config::{Config, Section};
use oomph_core::{InputSpec, Key, SampleSpec, TargetSpec};
use oomph_engine::{
    optimizer::Optimizer,
    task::{Classification, DeviceTargets, Task},
};
use oomph_model::{AnyTensor, Architecture, Init, Kernels, Pass, Policy, Stages, autodiff, gpt, vit};

use crate::{compare::Comparison, golden::Golden, host};

/// Relative, by norm.
const TOLERANCE: f64 = 1e-5;
const BATCH: usize = 3;
const STEPS: usize = 9;
const TOKENS: usize = 11;

/// The sizes of all networks of `tools/golden/transformer.py`.
const SIZES: &str = "layers = 2\nhidden = 24\nheads = 4";

/// The decoders of `tools/golden/transformer.py`, and their settings.
const DECODERS: [(&str, &str); 3] = [
    ("gpt2", "feed_forward = 40"),
    ("llama", "preset = 'llama'\nkey_heads = 2\nfeed_forward = 28"),
    ("mixed", "key_heads = 1\nfeed_forward = 40\nactivation = 'gelu'\npositions = 'rotary'\ntied = false"),
];

const POLICIES: [(bool, Kernels); 3] =
    [(true, Kernels::Cpu), (true, Kernels::Composed), (false, Kernels::Composed)];

#[test]
fn decoders_give_the_gradients_and_steps_of_torch() {
    for (variant, settings) in DECODERS {
        let settings = Section::from_toml("model", &format!("{SIZES}\n{settings}")).unwrap();
        let golden = Golden::open("gpt");
        let network = Network {
            architecture: gpt(&settings).unwrap(),
            spec: SampleSpec {
                input: InputSpec::Tokens { steps: STEPS, vocabulary: TOKENS },
                target: TargetSpec::Tokens { steps: STEPS, vocabulary: TOKENS },
            },
            prefix: format!("{variant}."),
            // The golden decoders have our names.
            name: |_, name| name.to_owned(),
            batch: |golden| (tokens(golden, 0).into(), DeviceTargets::Tokens(tokens(golden, 1))),
            golden,
        };
        network.check();
    }
}

#[test]
fn a_vision_transformer_gives_the_gradients_and_steps_of_torchvision() {
    let settings = Section::from_toml("model", &format!("{SIZES}\nfeed_forward = 40\npatch = 8")).unwrap();
    let network = Network {
        architecture: vit(&settings).unwrap(),
        spec: SampleSpec {
            input: InputSpec::Image { channels: 3, height: 16, width: 16 },
            target: TargetSpec::Class { count: 5 },
        },
        prefix: String::new(),
        name: Architecture::pytorch_name,
        batch: |golden| {
            let labels: Vec<i32> = golden.get("labels").values.iter().map(|label| *label as i32).collect();
            let labels = Tensor::from_data(TensorData::new(labels, [BATCH]), &device());
            (golden.get("images").tensor::<4>(&device()).into(), DeviceTargets::Classes(labels))
        },
        golden: Golden::open("vit"),
    };
    network.check();
}

fn device() -> Device {
    Device::flex().autodiff()
}

/// A network beside its golden values.
struct Network {
    architecture: Architecture,
    spec: SampleSpec,
    golden: Golden,
    /// What all of its keys begin with.
    prefix: String,
    /// The golden name of a parameter.
    name: fn(&Architecture, &str) -> String,
    batch: fn(&Golden) -> (AnyTensor, DeviceTargets),
}

impl Network {
    fn check(&self) {
        for (lean, kernels) in POLICIES {
            self.train(Policy { lean, kernels, ..Policy::default() });
        }
    }

    fn train(&self, policy: Policy) {
        let name = self.architecture.name();
        let what = format!("{name} {} lean={} {:?}", self.prefix, policy.lean, policy.kernels);
        let mut comparison = Comparison::new(what, TOLERANCE);
        let mut model = self.model();
        let task =
            Classification { lean: policy.lean.then_some(policy.kernels), ..Classification::default() };
        let config = "optimizer = { name = 'adamw', lr = 0.01, weight_decay = 0.1, epsilon = 1e-4 }";
        let mut optimizer =
            Optimizer::new(&Config::from_toml("x", config).unwrap().optimizer, policy.kernels);
        for step in 0..2 {
            let (input, targets) = (self.batch)(&self.golden);
            let mut pass = Pass::train(Key::new(0)).with_policy(policy);
            let logits = model.forward(input, &mut pass).unwrap();
            let loss = task.loss(&logits, &targets).unwrap();
            let found = (logits.to_host().unwrap(), host::scalar(loss.clone()));
            drop(logits);
            let gradients = autodiff::backward(loss, &model);
            if step == 0 {
                comparison.norm("logits", &found.0, self.expected("", "logits"));
                comparison.error("loss", found.1 / self.expected("", "loss")[0] - 1.0);
                let prefix = format!("{}grad.", self.prefix);
                assert_eq!(gradients.len(), self.golden.names_below(&prefix).len());
                for (name, gradient) in &gradients {
                    let values = gradient.clone().to_host().unwrap();
                    comparison.norm(name, &values, self.expected("grad.", &self.name(name)));
                }
            }
            optimizer.step(0.01, &mut model, gradients);
        }
        model.visit(&mut |info, tensor| {
            let values = tensor.inner().to_host().unwrap();
            let what = format!("{} after two steps", info.name);
            comparison.norm(&what, &values, self.expected("after.", &self.name(info.name)));
        });
        comparison.finish();
    }

    fn name(&self, own: &str) -> String {
        (self.name)(&self.architecture, own)
    }

    fn expected(&self, of: &str, name: &str) -> &[f64] {
        &self.golden.get(&format!("{}{of}{name}", self.prefix)).values
    }

    /// The built-in model with PyTorch's weights. Some have further dimensions of one element there, or those of a convolution.
    fn model(&self) -> Stages {
        let mut model = self.architecture.build(&self.spec, &Init::new(&device(), 0)).unwrap();
        model.map(&mut |info, tensor| {
            let values: Vec<f32> =
                self.expected("", &self.name(info.name)).iter().map(|value| *value as f32).collect();
            AnyTensor::floats(values, &tensor.dims(), &Device::flex()).tracked(info.trainable)
        });
        model
    }
}

/// The tokens of all texts from the given one on.
fn tokens(golden: &Golden, first: usize) -> Tensor<2, Int> {
    let tokens: Vec<_> = golden.get("tokens").values.iter().map(|token| *token as i32).collect();
    let data: Vec<i32> = tokens.chunks(STEPS + 1).flat_map(|row| row[first..][..STEPS].to_vec()).collect();
    Tensor::from_data(TensorData::new(data, [BATCH, STEPS]), &device())
}

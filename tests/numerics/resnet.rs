//! Two training steps of ResNet-18 and -50 against torchvision's: losses, gradients, weights, running statistics.

use std::collections::BTreeSet;

use burn::tensor::{Device, Int, Tensor, TensorData};
use oomph_config::{Config, Section};
use oomph_core::{InputSpec, Key, SampleSpec, TargetSpec};
use oomph_engine::{
    optimizer::Optimizer,
    task::{Classification, DeviceTargets, Task},
};
use oomph_model::{
    AnyTensor, Init, Kernels, Named, Pass, Policy, Stages, autodiff, resnet, torchvision_name,
};

use crate::{
    compare::Comparison,
    formula::{self, Spread},
    golden::Golden,
    host,
    summary::Summary,
};

const INPUT: [usize; 4] = [4, 3, 40, 40];
const SGD: &str = "optimizer = { name = 'sgd', lr = 0.05, momentum = 0.9, weight_decay = 1e-4 }";

/// Relative, for losses, logits, weights and statistics. PyTorch's own float32 is within 8e-7 of float64 by norm and
/// 1e-5 by element, so this leaves another order of summation a margin of ten; a stride in the wrong convolution or a
/// wrong momentum is off by 1e-3 and more.
const TOLERANCE: f64 = 1e-4;
/// Relative, for gradients. PyTorch's own float32 is within 5e-5 of float64 by element.
const GRADIENT_TOLERANCE: f64 = 1e-4;
/// Relative, for weights before any step: only the order of summation in the summary differs, in f64.
const INITIAL_TOLERANCE: f64 = 1e-12;

/// One of torchvision's networks, and what the formula of its weights depends on.
struct Case {
    name: &'static str,
    salt: &'static str,
    /// The last batch norm of a block, whose weights are small.
    last_norm: &'static str,
}

#[test]
fn resnet18_takes_the_training_steps_of_torchvision() {
    check(&Case { name: "resnet18", salt: "54", last_norm: ".bn2" });
}

#[test]
fn resnet50_takes_the_training_steps_of_torchvision() {
    check(&Case { name: "resnet50", salt: "60", last_norm: ".bn3" });
}

/// By our own kernels, by our backward passes composed of Burn's operations, and by Burn's backward passes.
fn check(case: &Case) {
    for (lean, kernels) in [(true, Kernels::Cpu), (true, Kernels::Composed), (false, Kernels::Composed)] {
        check_policy(case, Policy { lean, kernels, ..Policy::default() });
    }
}

fn check_policy(case: &Case, policy: Policy) {
    let golden = Golden::open(case.name);
    let mut model = case.model();
    let of = format!("{} lean={} {:?}", case.name, policy.lean, policy.kernels);
    let compare = |what: &str, tolerance| Comparison::new(format!("{of} {what}"), tolerance);
    let state = |when: &str, model: &Stages, tolerance| {
        compare_summaries(compare(when, tolerance), &golden, when, parameters(model));
    };
    state("initial", &model, INITIAL_TOLERANCE);
    let config = Config::from_toml("resnet", SGD).unwrap();
    let mut optimizer = Optimizer::new(&config.optimizer, Kernels::Cpu);
    let mut losses = compare("loss", TOLERANCE);
    let mut logits = compare("logits", TOLERANCE);
    for step in [1, 2] {
        let forward = train_forward(&mut model, case.input(), step, policy);
        let expected = golden.get("loss").values[step - 1];
        losses.error(&format!("step {step}"), host::scalar(forward.loss.clone()) / expected - 1.0);
        let key = format!("logits_train{step}");
        logits.elements(&key, &forward.logits.to_host().unwrap(), &golden.get(&key).values);
        let gradients = autodiff::backward(forward.loss, &model);
        if step == 1 {
            let named = gradients.iter().map(|(name, gradient)| (torchvision_name(name), gradient.clone()));
            compare_summaries(compare("grad1", GRADIENT_TOLERANCE), &golden, "grad1", named.collect());
        }
        optimizer.step(config.optimizer.lr, &mut model, gradients);
        state(&format!("after{step}"), &model, TOLERANCE);
    }
    let key = "logits_eval";
    logits.elements(key, &eval_logits(&model, case.input(), policy), &golden.get(key).values);
    losses.finish();
    logits.finish();
    compare_whole(compare("whole", TOLERANCE), &golden, &parameters(&model));
}

impl Case {
    /// The network with the weights of the formula.
    fn model(&self) -> Stages {
        let settings = Section::from_toml("model", &format!("name = '{}'", self.name)).unwrap();
        let [_, channels, height, width] = INPUT;
        let spec = SampleSpec {
            input: InputSpec::Image { channels, height, width },
            target: TargetSpec::Class { count: 10 },
        };
        let device = Device::flex().autodiff();
        let mut model = resnet(&settings).unwrap().build(&spec, &Init::new(&device, 0)).unwrap();
        model.map(&mut |info, tensor| {
            let (name, shape) = (torchvision_name(info.name), tensor.dims());
            let values = self.values(&name, tensor.elements(), self.spread(&name, &shape));
            AnyTensor::floats(values, &shape, &Device::flex()).tracked(info.trainable)
        });
        model
    }

    fn input(&self) -> Tensor<4> {
        let values = self.values("input", INPUT.iter().product(), Spread { center: 0.0, half: 1.0 });
        Tensor::from_data(TensorData::new(values, INPUT), &Device::flex())
    }

    fn values(&self, name: &str, count: usize, spread: Spread) -> Vec<f32> {
        formula::values(&format!("{}/{}/{name}", self.name, self.salt), count, spread)
    }

    /// Where the weights of the tensor that torchvision calls `name` lie.
    fn spread(&self, name: &str, shape: &[usize]) -> Spread {
        let (module, leaf) = name.rsplit_once('.').expect("a module and a tensor of it");
        let weights = |gain: f64| {
            let fan_in: usize = shape[1..].iter().product();
            Spread { center: 0.0, half: gain * (3.0 / fan_in as f64).sqrt() }
        };
        match (module, leaf) {
            ("conv1", _) => weights(2.0),
            ("fc", "weight") => weights(0.3),
            (_, "weight") if shape.len() == 4 => weights(0.5),
            (_, "weight") if module.ends_with(self.last_norm) => Spread { center: 0.1, half: 0.05 },
            (_, "weight" | "running_var") => Spread { center: 1.0, half: 0.5 },
            _ => Spread { center: 0.0, half: 0.1 },
        }
    }
}

struct Forward {
    logits: AnyTensor,
    loss: Tensor<1>,
}

/// A forward in training, after which the model has the new running statistics.
fn train_forward(model: &mut Stages, input: Tensor<4>, step: usize, policy: Policy) -> Forward {
    let mut pass = Pass::train(Key::new(0).with(step as u64)).with_policy(policy);
    let logits = model.forward(autodiff::outer(input).into(), &mut pass).unwrap();
    model.apply(pass.into_updates());
    let labels = Tensor::<1, Int>::from_ints([0, 1, 2, 3], &Device::flex().autodiff());
    let task = Classification::default();
    let loss = task.loss(&logits, &DeviceTargets::Classes(labels)).unwrap();
    Forward { logits, loss }
}

fn eval_logits(model: &Stages, input: Tensor<4>, policy: Policy) -> Vec<f32> {
    let logits = model.inference().forward(input.into(), &mut Pass::eval().with_policy(policy)).unwrap();
    logits.to_host().unwrap()
}

/// Parameters and running statistics by torchvision's names.
fn parameters(model: &Stages) -> Named<AnyTensor> {
    let mut named = Named::new();
    model.visit(&mut |info, tensor| {
        named.insert(torchvision_name(info.name), tensor);
    });
    named
}

/// Holds all tensors against the summaries under `prefix`, and sees to it that there are the same ones on both sides.
fn compare_summaries(mut comparison: Comparison, golden: &Golden, prefix: &str, found: Named<AnyTensor>) {
    let prefix = format!("{prefix}.");
    let expected: BTreeSet<_> = golden.names_below(&prefix).into_iter().collect();
    assert_eq!(found.keys().map(String::as_str).collect::<BTreeSet<_>>(), expected);
    for (name, tensor) in found {
        let summary = Summary::of(&name, &tensor.to_host().unwrap());
        let expected = Summary::stored(&golden.get(&format!("{prefix}{name}")).values);
        comparison.error(&name, summary.error(&expected, tensor.elements()));
    }
    comparison.finish();
}

/// Holds the tensors that are stored whole against them, element by element.
fn compare_whole(mut comparison: Comparison, golden: &Golden, found: &Named<AnyTensor>) {
    for name in golden.names_below("whole.") {
        let expected = golden.get(&format!("whole.{name}"));
        comparison.elements(name, &found[name].to_host().unwrap(), &expected.values);
    }
    comparison.finish();
}

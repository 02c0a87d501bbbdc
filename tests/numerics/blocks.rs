//! The blocks of a ResNet against torchvision's in float64: what lean layers lose to rounding is less than 1e-5.

use burn::tensor::Device;
use oomph_config::Section;
use oomph_core::{InputSpec, Key, SampleSpec, TargetSpec};
use oomph_model::{AnyTensor, Init, Kernels, Pass, Policy, Stages, autodiff, resnet, torchvision_name};

use crate::{
    compare::Comparison,
    formula::{self, Spread},
    golden::Golden,
};

/// Relative, by norm. PyTorch's own float32 is within 3.3e-6 of float64.
const TOLERANCE: f64 = 1e-5;
const INPUT: [usize; 4] = [4, 3, 40, 40];
const UNIT: Spread = Spread { center: 0.0, half: 1.0 };

#[test]
fn basic_blocks_are_within_rounding_of_torchvision() {
    check(&Case { kind: "basic", salt: 142, model: "resnet18", stages: 4 });
}

#[test]
fn bottlenecks_are_within_rounding_of_torchvision() {
    check(&Case { kind: "bottleneck", salt: 14, model: "resnet50", stages: 5 });
}

/// The first stages of a network.
struct Case {
    kind: &'static str,
    /// The seed of all formula values: a number in the name of each tensor.
    salt: usize,
    model: &'static str,
    stages: usize,
}

/// By our own kernels, by their twins and by Burn's backward passes.
fn check(case: &Case) {
    let golden = Golden::open("blocks");
    for (lean, kernels) in [(true, Kernels::Cpu), (true, Kernels::Composed), (false, Kernels::Composed)] {
        let policy = Policy { lean, kernels, ..Policy::default() };
        check_policy(case, &golden, policy);
    }
}

fn check_policy(case: &Case, golden: &Golden, policy: Policy) {
    let Case { kind, stages, .. } = *case;
    let mut model = case.network();
    let mut comparison =
        Comparison::new(format!("{kind} lean={} {:?}", policy.lean, policy.kernels), TOLERANCE);
    let mut compare = |key: String, found: Vec<f32>| {
        comparison.norm(&key, &found, &golden.get(&format!("{kind}.{key}")).values);
    };
    let mut pass = Pass::train(Key::new(0)).with_policy(policy);
    let input = case.values("input", INPUT.iter().product(), UNIT);
    let input = AnyTensor::floats(input, &INPUT, &Device::flex()).tracked(false);
    let forward = |activation, stage| model.forward_stage(stage, activation, &mut pass);
    let output = (0..stages).try_fold(input, forward).unwrap().float::<4>().unwrap();
    compare("output".into(), AnyTensor::from(autodiff::inner(output.clone())).to_host().unwrap());
    let upstream = case.values("upstream", output.shape().num_elements(), UNIT);
    let upstream = AnyTensor::floats(upstream, &output.dims(), &Device::flex().autodiff());
    let loss = (output * upstream.float::<4>().unwrap()).sum();
    let gradients = autodiff::backward(loss, &model);
    model.apply(pass.into_updates());
    let mut compared = 1;
    for (name, gradient) in gradients {
        compare(format!("grad.{}", torchvision_name(&name)), gradient.to_host().unwrap());
        compared += 1;
    }
    model.visit(&mut |info, tensor| {
        let key = format!("after.{}", torchvision_name(info.name));
        if golden.names_below(&format!("{kind}.")).contains(&key.as_str()) {
            compare(key, tensor.to_host().unwrap());
            compared += 1;
        }
    });
    comparison.finish();
    assert_eq!(compared, golden.names_below(&format!("{kind}.")).len(), "all of them were compared");
}

impl Case {
    fn values(&self, name: &str, count: usize, spread: Spread) -> Vec<f32> {
        formula::values(&format!("blocks/{}/{}/{name}", self.kind, self.salt), count, spread)
    }

    /// The network with the weights of the formula. It goes on behind the stages that are compared.
    fn network(&self) -> Stages {
        let settings = Section::from_toml("model", &format!("name = '{}'\nwidth = 8", self.model)).unwrap();
        let [_, channels, height, width] = INPUT;
        let spec = SampleSpec {
            input: InputSpec::Image { channels, height, width },
            target: TargetSpec::Class { count: 10 },
        };
        let device = Device::flex().autodiff();
        let mut model = resnet(&settings).unwrap().build(&spec, &Init::new(&device, 0)).unwrap();
        model.map(&mut |info, tensor| {
            let (name, shape) = (torchvision_name(info.name), tensor.dims());
            let values = self.values(&name, tensor.elements(), spread(&name, &shape));
            AnyTensor::floats(values, &shape, &Device::flex()).tracked(info.trainable)
        });
        model
    }
}

fn spread(name: &str, shape: &[usize]) -> Spread {
    let fan_in: usize = shape[1..].iter().product();
    match (name.rsplit_once('.').expect("a module and a tensor of it").1, shape.len()) {
        ("weight", 2..) => Spread { center: 0.0, half: (3.0 / fan_in as f64).sqrt() },
        ("weight" | "running_var", _) => Spread { center: 1.0, half: 0.5 },
        _ => Spread { center: 0.0, half: 0.1 },
    }
}

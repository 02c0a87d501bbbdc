//! Two LSTM layers and the LSTM classifier against `torch.nn.LSTM`: outputs, states and all gradients.

use burn::{
    module::Param,
    tensor::{Device, Gradients, Int, Tensor},
};
use oomph_config::Section;
use oomph_core::{InputSpec, Key, SampleSpec, TargetSpec};
use oomph_engine::task::{Classification, DeviceTargets, Task};
use oomph_model::{
    AnyTensor, Init, Kernels, Pass, Policy, Stages, autodiff,
    layers::{Lstm, LstmState},
    recurrent::lstm,
};

use crate::{
    compare::Comparison,
    golden::{Golden, GoldenTensor},
    host,
};

/// Both absolute and relative to the size of the tensor. PyTorch's own float32 is within 6e-7 of float64.
const TOLERANCE: f64 = 1e-5;
const LAYERS: usize = 2;

/// One kind of result, held against PyTorch's absolutely and relatively.
pub(crate) struct Parity<'a> {
    golden: &'a Golden,
    absolute: Comparison,
    relative: Comparison,
}

impl<'a> Parity<'a> {
    pub(crate) fn new(what: &str, golden: &'a Golden) -> Self {
        Self {
            golden,
            absolute: Comparison::new(format!("{what}, absolute"), TOLERANCE),
            relative: Comparison::new(format!("{what}, relative"), TOLERANCE),
        }
    }

    pub(crate) fn compare(&mut self, key: &str, found: &[f32]) {
        let expected = &self.golden.get(key).values;
        self.absolute.absolute(key, found, expected);
        self.relative.elements(key, found, expected);
    }

    pub(crate) fn finish(self) {
        self.absolute.finish();
        self.relative.finish();
    }
}

/// By our own kernels, those again with recomputation, by our backward pass composed of Burn's operations, and by
/// Burn's backward passes.
pub(crate) fn policies() -> [(String, Policy); 4] {
    let policy = |lean, kernels, recompute| {
        let policy = Policy { lean, kernels, recompute, ..Policy::default() };
        (format!("lean={lean} {kernels:?} recompute={recompute}"), policy)
    };
    [
        policy(true, Kernels::Cpu, false),
        policy(true, Kernels::Cpu, true),
        policy(true, Kernels::Composed, false),
        policy(false, Kernels::Composed, false),
    ]
}

#[test]
fn layers_give_the_outputs_and_gradients_of_torch() {
    for (name, policy) in policies() {
        check_layers(&name, policy);
    }
}

fn check_layers(name: &str, policy: Policy) {
    let golden = Golden::open("lstm");
    let device = Device::flex().autodiff();
    let layers: [Lstm; LAYERS] = std::array::from_fn(|index| layer(&golden, index, &device));
    let leaf = |key: &str| golden.get(key).tensor::<3>(&device).require_grad();
    let leaves @ [input, h0, c0] = &["input", "h0", "c0"].map(leaf);
    let [output, hn, cn] = run_layers(&layers, [input, h0, c0], policy);

    let upstream = |key: &str| golden.get(&format!("upstream.{key}")).tensor::<3>(&device);
    let weighted = |key: &str, found: &Tensor<3>| (found.clone() * upstream(key)).sum();
    let loss = weighted("output", &output) + weighted("hn", &hn) + weighted("cn", &cn);
    let gradients = loss.backward();

    let mut forward = Parity::new(&format!("lstm {name} outputs"), &golden);
    for (key, found) in [("output", output), ("hn", hn), ("cn", cn)] {
        forward.compare(key, &host::values(found));
    }
    forward.finish();
    // A sum of terms that cancel: only its absolute error says something.
    let mut sum = Comparison::new(format!("lstm {name} loss, absolute"), TOLERANCE);
    sum.absolute("loss", &host::values(loss), &golden.get("loss").values);
    sum.finish();
    let mut backward = Parity::new(&format!("lstm {name} gradients"), &golden);
    for (key, leaf) in ["grad.input", "grad.h0", "grad.c0"].into_iter().zip(leaves) {
        backward.compare(key, &host::gradient(leaf, &gradients));
    }
    for (index, layer) in layers.iter().enumerate() {
        for (name, gradient) in parameter_gradients(layer, &gradients) {
            backward.compare(&format!("grad.{name}_l{index}"), &gradient);
        }
    }
    backward.finish();
}

/// A layer with PyTorch's weights.
fn layer(golden: &Golden, index: usize, device: &Device) -> Lstm {
    fn parameter<const D: usize>(stored: &GoldenTensor, device: &Device) -> Param<Tensor<D>> {
        Param::from_tensor(stored.tensor(device))
    }
    let stored = |name: &str| golden.get(&format!("{name}_l{index}"));
    Lstm {
        weight_ih: parameter(stored("weight_ih"), device),
        weight_hh: parameter(stored("weight_hh"), device),
        bias_ih: parameter(stored("bias_ih"), device),
        bias_hh: parameter(stored("bias_hh"), device),
    }
}

/// Output, last hidden states and last cells, from the given states, layer first.
fn run_layers(layers: &[Lstm], [input, h0, c0]: [&Tensor<3>; 3], policy: Policy) -> [Tensor<3>; 3] {
    let of_layer = |states: &Tensor<3>, index: usize| states.clone().narrow(0, index, 1).squeeze_dim(0);
    let mut pass = Pass::train(Key::new(0)).with_policy(policy);
    let mut output = input.clone();
    let (mut hidden, mut cells) = (Vec::new(), Vec::new());
    for (index, layer) in layers.iter().enumerate() {
        let start = LstmState { hidden: of_layer(h0, index), cell: of_layer(c0, index) };
        let (sequence, end) = layer.forward(output, Some(start), &mut pass).unwrap();
        output = sequence;
        hidden.push(end.hidden);
        cells.push(end.cell);
    }
    [output, Tensor::stack(hidden, 0), Tensor::stack(cells, 0)]
}

fn parameter_gradients(layer: &Lstm, gradients: &Gradients) -> [(&'static str, Vec<f32>); 4] {
    [
        ("weight_ih", host::gradient(&layer.weight_ih.val(), gradients)),
        ("weight_hh", host::gradient(&layer.weight_hh.val(), gradients)),
        ("bias_ih", host::gradient(&layer.bias_ih.val(), gradients)),
        ("bias_hh", host::gradient(&layer.bias_hh.val(), gradients)),
    ]
}

#[test]
fn the_classifier_gives_the_loss_and_gradients_of_torch() {
    for (name, policy) in policies() {
        check_classifier(&name, policy);
    }
}

fn check_classifier(name: &str, policy: Policy) {
    let golden = Golden::open("lstm");
    let model = classifier(&golden);
    let input = golden.get("input").tensor::<3>(&Device::flex().autodiff()).require_grad();
    let (logits, loss) = classify(&model, &input, &golden, policy);

    let mut forward = Parity::new(&format!("lstm classifier {name}"), &golden);
    forward.compare("classifier.logits", &logits.to_host().unwrap());
    forward.compare("classifier.loss", &host::values(loss.clone()));
    forward.finish();
    let mut backward = Parity::new(&format!("lstm classifier {name} gradients"), &golden);
    for (name, gradient) in autodiff::backward(loss, &model) {
        backward.compare(&format!("classifier.grad.{}", torch_name(&name)), &gradient.to_host().unwrap());
    }
    // `autodiff::backward` gives the gradients of parameters and uses the graph up: the input's takes another one.
    let (_, loss) = classify(&model, &input, &golden, policy);
    backward.compare("classifier.grad.input", &host::gradient(&input, &loss.backward()));
    backward.finish();
}

/// The built-in model with PyTorch's weights.
fn classifier(golden: &Golden) -> Stages {
    let settings = Section::from_toml("model", "hidden = 7\nlayers = 2").unwrap();
    let spec = SampleSpec {
        input: InputSpec::Sequence { steps: 9, features: 5 },
        target: TargetSpec::Class { count: 4 },
    };
    let device = Device::flex().autodiff();
    let mut model = lstm(&settings).unwrap().build(&spec, &Init::new(&device, 0)).unwrap();
    model.map(&mut |info, tensor| {
        let stored = golden.get(&torch_name(info.name));
        assert_eq!(stored.shape, tensor.dims(), "{}", info.name);
        AnyTensor::floats(stored.floats(), &stored.shape, &Device::flex()).tracked(info.trainable)
    });
    model
}

fn classify(model: &Stages, input: &Tensor<3>, golden: &Golden, policy: Policy) -> (AnyTensor, Tensor<1>) {
    let logits =
        model.forward(input.clone().into(), &mut Pass::train(Key::new(0)).with_policy(policy)).unwrap();
    let labels: Tensor<1, Int> = golden.get("classifier.labels").tensor::<1>(&input.device()).int();
    let task = Classification::default();
    let loss = task.loss(&logits, &DeviceTargets::Classes(labels)).unwrap();
    (logits, loss)
}

/// The golden key of the parameter that the model calls `name`.
fn torch_name(name: &str) -> String {
    match name.split('.').collect::<Vec<_>>()[..] {
        ["lstm", index, "layer", leaf] => format!("{leaf}_l{index}"),
        ["head", "fc", leaf] => format!("classifier.{leaf}"),
        _ => panic!("the classifier has no parameter `{name}` that this test knows"),
    }
}

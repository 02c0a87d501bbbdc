//! Two GRU layers and the GRU classifier against `torch.nn.GRU`: outputs, states, all gradients, two steps of AdamW.

use burn::{
    module::Param,
    tensor::{Device, Int, Tensor, TensorData},
};
use oomph_config::Section;
use oomph_core::{InputSpec, Key, SampleSpec, TargetSpec};
use oomph_engine::task::DeviceTargets;
use oomph_model::{Architecture, Pass, Policy, layers::Gru, recurrent::gru};

use crate::{
    golden::Golden,
    host,
    lstm::{Parity, policies},
    network::{Network, device},
};

const LAYERS: usize = 2;

#[test]
fn layers_give_the_outputs_and_gradients_of_torch() {
    for (name, policy) in policies() {
        check_layers(&name, policy);
    }
}

fn check_layers(name: &str, policy: Policy) {
    let golden = Golden::open("gru");
    let device = device();
    let layers: [Gru; LAYERS] = std::array::from_fn(|index| layer(&golden, index, &device));
    let leaf = |key: &str| golden.get(&format!("layers.{key}")).tensor::<3>(&device).require_grad();
    let leaves @ [input, h0] = &["input", "h0"].map(leaf);
    let mut pass = Pass::train(Key::new(0)).with_policy(policy);
    let (mut output, mut last) = (input.clone(), Vec::new());
    for (index, layer) in layers.iter().enumerate() {
        let start = h0.clone().narrow(0, index, 1).squeeze_dim(0);
        let (sequence, hidden) = layer.forward(output, Some(start), &mut pass).unwrap();
        output = sequence;
        last.push(hidden);
    }
    let hn: Tensor<3> = Tensor::stack(last, 0);
    let weighted = |key: &str, found: &Tensor<3>| {
        (found.clone() * golden.get(&format!("layers.upstream.{key}")).tensor::<3>(&device)).sum()
    };
    let gradients = (weighted("output", &output) + weighted("hn", &hn)).backward();

    let mut forward = Parity::new(&format!("gru {name} outputs"), &golden);
    for (key, found) in [("output", output), ("hn", hn)] {
        forward.compare(&format!("layers.{key}"), &host::values(found));
    }
    forward.finish();
    let mut backward = Parity::new(&format!("gru {name} gradients"), &golden);
    for (key, leaf) in ["input", "h0"].into_iter().zip(leaves) {
        backward.compare(&format!("layers.grad.{key}"), &host::gradient(leaf, &gradients));
    }
    for (index, layer) in layers.iter().enumerate() {
        let key = |leaf: &str| format!("layers.grad.{leaf}_l{index}");
        for (leaf, weight) in [("weight_ih", &layer.weight_ih), ("weight_hh", &layer.weight_hh)] {
            backward.compare(&key(leaf), &host::gradient(&weight.val(), &gradients));
        }
        for (leaf, bias) in [("bias_ih", &layer.bias_ih), ("bias_hh", &layer.bias_hh)] {
            backward.compare(&key(leaf), &host::gradient(&bias.val(), &gradients));
        }
    }
    backward.finish();
}

/// A layer with PyTorch's weights.
fn layer(golden: &Golden, index: usize, device: &Device) -> Gru {
    let stored = |name: &str| golden.get(&format!("layers.{name}_l{index}"));
    Gru {
        weight_ih: Param::from_tensor(stored("weight_ih").tensor(device)),
        weight_hh: Param::from_tensor(stored("weight_hh").tensor(device)),
        bias_ih: Param::from_tensor(stored("bias_ih").tensor(device)),
        bias_hh: Param::from_tensor(stored("bias_hh").tensor(device)),
    }
}

#[test]
fn the_classifier_gives_the_gradients_and_steps_of_torch() {
    let settings = Section::from_toml("model", "hidden = 7\nlayers = 2").unwrap();
    let network = Network {
        architecture: gru(&settings).unwrap(),
        spec: SampleSpec {
            input: InputSpec::Sequence { steps: 9, features: 5 },
            target: TargetSpec::Class { count: 4 },
        },
        prefix: "classifier.".into(),
        name: Architecture::pytorch_name,
        batch: |golden| {
            let labels = &golden.get("classifier.labels").values;
            let labels: Vec<i32> = labels.iter().map(|label| *label as i32).collect();
            let count = labels.len();
            let labels: Tensor<1, Int> = Tensor::from_data(TensorData::new(labels, [count]), &device());
            let input = golden.get("classifier.input").tensor::<3>(&device());
            (input.into(), DeviceTargets::Classes(labels))
        },
        golden: Golden::open("gru"),
    };
    network.check();
}

//! Low-rank adapters: their gradients are those of the changed weight, by the chain rule.

use burn::tensor::{Device, Tensor};
use oomph_config::Section;
use oomph_core::{InputSpec, Key, SampleSpec, TargetSpec};
use oomph_model::{
    AnyTensor, Architecture, Init, Kernels, Named, Pass, Policy, Stages, autodiff,
    lora::{LORA_ENDINGS, Lora, merged},
    recurrent::{gru, lstm},
    resnet, vit,
};

use crate::compare::Comparison;

/// Relative, by norm.
const TOLERANCE: f64 = 1e-5;
const RANK: usize = 3;
const ALPHA: f64 = 5.0;

const IMAGES: SampleSpec = SampleSpec {
    input: InputSpec::Image { channels: 3, height: 16, width: 16 },
    target: TargetSpec::Class { count: 5 },
};

fn lora(targets: &[&str], train: &[&str]) -> Lora {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Lora { rank: RANK, alpha: ALPHA, targets: owned(targets), train: owned(train) }
}

fn section(text: &str) -> Section {
    Section::from_toml("model", text).unwrap()
}

fn device() -> Device {
    Device::flex().autodiff()
}

fn build(architecture: &Architecture, spec: &SampleSpec) -> Stages {
    architecture.build(spec, &Init::new(&device(), 3)).unwrap()
}

/// Gives every B values, since it starts at 0, and takes all values.
fn with_changes(model: &mut Stages) -> Named<Vec<f32>> {
    let mut values = Named::new();
    model.map(&mut |info, tensor| {
        let tensor = match info.name.ends_with(LORA_ENDINGS[1]) {
            true => {
                let numbers = (0..tensor.elements()).map(|at| (at as f32).sin() * 0.1).collect();
                let changed = AnyTensor::floats(numbers, &tensor.dims(), &Device::flex());
                changed.tracked_like(&tensor, true)
            }
            false => tensor,
        };
        values.insert(info.name.to_owned(), tensor.to_host().unwrap());
        tensor
    });
    values
}

/// The gradients of half the sum of squares of the outputs.
fn gradients(model: &Stages, input: &AnyTensor, policy: Policy) -> Named<AnyTensor> {
    let mut pass = Pass::train(Key::new(0)).with_policy(policy);
    let output: Tensor<2> = model.forward(input.clone(), &mut pass).unwrap().float().unwrap();
    autodiff::backward(output.square().sum().mul_scalar(0.5), model)
}

/// `left` of rows of `inner` values, times `right` of as many rows.
fn product(left: &[f64], right: &[f64], inner: usize) -> Vec<f64> {
    let columns = right.len() / inner;
    let of = |row: &[f64], column: usize| (0..inner).map(|at| row[at] * right[at * columns + column]).sum();
    left.chunks(inner).flat_map(|row| (0..columns).map(move |column| of(row, column))).collect()
}

fn transposed(values: &[f64], columns: usize) -> Vec<f64> {
    (0..columns).flat_map(|column| values.chunks(columns).map(move |row| row[column])).collect()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

/// Trains nothing but the adapters; their gradients are those of the same model with the changed weights.
fn check(what: &str, plain: &Architecture, spec: &SampleSpec, lora: &Lora, input: &AnyTensor, count: usize) {
    for (lean, kernels) in [(true, Kernels::Cpu), (false, Kernels::Composed)] {
        let policy = Policy { lean, kernels, ..Policy::default() };
        let mut adapted = build(&plain.clone().with_lora(Some(lora.clone())), spec);
        let values = with_changes(&mut adapted);
        let found = gradients(&adapted, input, policy);
        let mut whole_model = build(plain, spec);
        let changed = merged(adapted.inference());
        let mut weights = Named::new();
        changed.visit(&mut |info, tensor| drop(weights.insert(info.name.to_owned(), tensor)));
        whole_model.map(&mut |info, tensor| weights[info.name].clone().tracked_like(&tensor, info.trainable));
        let whole = gradients(&whole_model, input, policy);
        let mut comparison = Comparison::new(format!("{what} lean={lean}"), TOLERANCE);
        let adapters: Vec<&str> =
            found.keys().filter_map(|name| name.strip_suffix(LORA_ENDINGS[0])).collect();
        assert_eq!(adapters.len(), count, "{what}: {adapters:?}");
        for name in &adapters {
            let [a, b] = LORA_ENDINGS.map(|ending| format!("{name}{ending}"));
            let of_weight: Vec<f64> =
                wide(&whole[*name].to_host().unwrap()).iter().map(|g| g * ALPHA / RANK as f64).collect();
            let (a_values, b_values) = (wide(&values[&a]), wide(&values[&b]));
            let (outputs, inputs) = (b_values.len() / RANK, a_values.len() / RANK);
            let of_a = product(&transposed(&b_values, RANK), &of_weight, outputs);
            let of_b = product(&of_weight, &transposed(&a_values, inputs), inputs);
            for (name, expected) in [(&a, of_a), (&b, of_b)] {
                comparison.norm(name, &found[name].to_host().unwrap(), &expected);
            }
        }
        let trained = |name: &&String| lora.train.iter().any(|stage| name.starts_with(&format!("{stage}.")));
        for name in found.keys().filter(|name| !LORA_ENDINGS.iter().any(|ending| name.ends_with(ending))) {
            assert!(trained(&name), "{what}: `{name}` has a gradient");
            comparison.norm(name, &found[name].to_host().unwrap(), &wide(&whole[name].to_host().unwrap()));
        }
        comparison.finish();
    }
}

fn images() -> AnyTensor {
    let values = (0..4 * 3 * 16 * 16).map(|at| (at as f32 * 0.7).sin()).collect();
    AnyTensor::floats(values, &[4, 3, 16, 16], &device())
}

#[test]
fn adapters_of_linear_layers_have_the_gradients_of_the_chain_rule() {
    let plain = vit(&section("layers = 2\nhidden = 24\nheads = 4\npatch = 8\nfeed_forward = 40")).unwrap();
    check("vit", &plain, &IMAGES, &lora(&["qkv", "down"], &["head"]), &images(), 4);
    // Four in each block, and that of the patches.
    check("vit, all", &plain, &IMAGES, &lora(&[], &[]), &images(), 9);
}

#[test]
fn adapters_of_convolutions_have_the_gradients_of_the_chain_rule() {
    let plain = resnet(&section("name = 'resnet18'\nstem = 'small'\nwidth = 4")).unwrap();
    check("resnet", &plain, &IMAGES, &lora(&["conv2"], &["stem", "head"]), &images(), 8);
}

#[test]
fn adapters_of_recurrent_layers_have_the_gradients_of_the_chain_rule() {
    let settings = section("hidden = 6\nlayers = 2");
    let spec = SampleSpec {
        input: InputSpec::Sequence { steps: 5, features: 4 },
        target: TargetSpec::Class { count: 3 },
    };
    let values = (0..4 * 5 * 4).map(|at| (at as f32 * 0.7).sin()).collect();
    let input = AnyTensor::floats(values, &[4, 5, 4], &device());
    check("lstm", &lstm(&settings).unwrap(), &spec, &lora(&[], &[]), &input, 4);
    check("gru", &gru(&settings).unwrap(), &spec, &lora(&[], &[]), &input, 4);
}

#[test]
fn what_no_weight_is_named_is_refused() {
    let plain = vit(&section("layers = 1\nhidden = 24\nheads = 4\npatch = 8\nfeed_forward = 40")).unwrap();
    let adapted = plain.with_lora(Some(lora(&["qkw"], &[])));
    let error = adapted.build(&IMAGES, &Init::new(&Device::flex(), 0)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`model.lora.targets` has `qkw`, which is no part of the name of a weight; layers with weights are patches, \
         qkv, attention_output, up, down, fc"
    );
}

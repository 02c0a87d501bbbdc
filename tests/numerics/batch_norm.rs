//! Batch normalisation against `torch.nn.BatchNorm2d`: two training calls, evaluation, and data far from zero.

use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use oomph_core::Key;
use oomph_model::{AnyTensor, Init, ModelError, Pass, Stage, Stages, layers::BatchNorm};

use crate::{compare::Comparison, golden::Golden, host};

/// Relative to the size of the tensor. PyTorch's own float32 is within 1e-6 of float64.
const TOLERANCE: f64 = 1e-5;
/// The same for data with a mean of 100 and a spread of 0.6, where float32 itself is 8e-6 off float64. A variance
/// taken as E[x²] − E[x]² would be off by more than 1e-3.
const FAR_TOLERANCE: f64 = 1e-4;

const CHANNELS: usize = 3;

#[derive(Module, Debug)]
struct Norm {
    bn: BatchNorm,
}

impl Stage for Norm {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let input = pass.float::<4>(input)?;
        Ok(self.bn.forward(input, pass)?.into())
    }
}

#[test]
fn training_and_evaluation_give_the_numbers_of_torch() {
    let golden = Golden::open("batchnorm");
    let mut model = with_stored_weights(&golden);
    let mut comparison = Comparison::new("batch norm", TOLERANCE);
    for call in ["1", "2"] {
        compare_training(&mut comparison, &golden, &mut model, call);
    }
    let mut pass = Pass::eval();
    compare_call(&mut comparison, &golden, &model, &mut pass, ["x2", "upstream2", "_eval"]);
    assert!(pass.into_updates().is_empty(), "evaluation moves no running statistics");
    comparison.finish();
}

#[test]
fn data_far_from_zero_keeps_its_variance() {
    let golden = Golden::open("batchnorm");
    let mut comparison = Comparison::new("batch norm far from zero", FAR_TOLERANCE);
    compare_training(&mut comparison, &golden, &mut fresh(), "_far");
    comparison.finish();
}

#[test]
fn training_off_the_graph_normalises_with_the_statistics_of_the_batch_too() {
    let golden = Golden::open("batchnorm");
    let model = with_stored_weights(&golden).inference();
    let x = golden.get("x1").tensor::<4>(&Device::flex());
    let y = model.forward(x.into(), &mut Pass::train(Key::new(0))).unwrap();
    let mut comparison = Comparison::new("batch norm off the graph", TOLERANCE);
    comparison.elements("y1", &y.to_host().unwrap(), &golden.get("y1").values);
    comparison.finish();
}

/// A training call, its gradients, and the running statistics after it.
fn compare_training(comparison: &mut Comparison, golden: &Golden, model: &mut Stages, suffix: &str) {
    let mut pass = Pass::train(Key::new(0));
    let keys = [&format!("x{suffix}"), &format!("upstream{suffix}"), suffix];
    compare_call(comparison, golden, model, &mut pass, keys);
    model.apply(pass.into_updates());
    for name in ["running_mean", "running_var"] {
        let key = format!("{name}{suffix}");
        comparison.elements(&key, &host::values(parameter(model, name)), &golden.get(&key).values);
    }
}

/// The output for `x`, and the gradients of its product with `upstream`.
fn compare_call(
    comparison: &mut Comparison,
    golden: &Golden,
    model: &Stages,
    pass: &mut Pass,
    [x, upstream, suffix]: [&str; 3],
) {
    let stored = |key: &str| golden.get(key).tensor::<4>(&Device::flex().autodiff());
    let x = stored(x).require_grad();
    let y = model.forward(x.clone().into(), pass).unwrap().float::<4>().unwrap();
    let gradients = (y.clone() * stored(upstream)).sum().backward();
    let found = [
        ("y", host::values(y)),
        ("dx", host::gradient(&x, &gradients)),
        ("dweight", host::gradient(&parameter(model, "weight"), &gradients)),
        ("dbias", host::gradient(&parameter(model, "bias"), &gradients)),
    ];
    for (name, found) in found {
        let key = format!("{name}{suffix}");
        comparison.elements(&key, &found, &golden.get(&key).values);
    }
}

/// A layer as it is made: weight 1, bias 0.
fn fresh() -> Stages {
    Stages::single(Norm { bn: BatchNorm::new(&Init::new(&Device::flex().autodiff(), 0), CHANNELS) })
}

fn with_stored_weights(golden: &Golden) -> Stages {
    let mut model = fresh();
    model.map(&mut |info, tensor| match info.name {
        "model.bn.weight" | "model.bn.bias" => {
            let leaf = info.name.trim_start_matches("model.bn.");
            AnyTensor::from(golden.get(leaf).tensor::<1>(&Device::flex())).tracked(info.trainable)
        }
        _ => tensor,
    });
    model
}

fn parameter(model: &Stages, leaf: &str) -> Tensor<1> {
    let mut found = None;
    model.visit(&mut |info, tensor| {
        if info.name.ends_with(leaf) {
            found = tensor.float::<1>();
        }
    });
    found.expect("the layer has the parameter")
}

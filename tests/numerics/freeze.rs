//! What is frozen stays to the bit, and everything else trains as it would on one graph.

use burn::tensor::{Device, Int, Tensor, TensorData};
use oomph_core::Key;
use oomph_data::{Targets, Values};
use oomph_engine::{record::model_record, task::DeviceTargets};
use oomph_model::{AnyTensor, Named, Pass, autodiff};
use oomph_trainer::new_stepper;

use crate::{compare::Comparison, digits, host};

const RESNET: &str = "data = { source = 'digits', workers = 0 }
    train = { batch = 16 }
    optimizer = { name = 'adamw', weight_decay = 0.1 }";

/// Against PyTorch's way: all on one graph, with Burn's own backward passes.
const TOLERANCE: f64 = 1e-4;

fn resnet(freeze: &str, rest: &str) -> String {
    format!("model = {{ name = 'resnet18', width = 8, stem = 'small', freeze = {freeze} }}\n{RESNET}\n{rest}")
}

fn recurrent(name: &str, freeze: &str) -> String {
    format!(
        "model = {{ name = '{name}', hidden = 12, layers = 3, dropout = 0.3, freeze = {freeze} }}
         data = {{ source = 'digits', layout = 'rows', workers = 0 }}
         train = {{ batch = 16 }}
         optimizer = {{ name = 'adam' }}"
    )
}

/// Values by name, to the bit.
type Bits = Vec<(String, Vec<u32>)>;

/// Parameters and running statistics after some steps, before and after; the optimizer's parameters.
fn trained(config: &str) -> (Bits, Bits, Vec<String>) {
    let session = digits::session(config);
    let mut stepper = new_stepper(&session).unwrap().0;
    let before = host::parameter_bits(&stepper.model);
    for (step, batch) in digits::batches(&session, 3).into_iter().enumerate() {
        stepper.step(batch, step, 0.05, &*session.task).unwrap();
    }
    let optimized = stepper.optimizer.record().unwrap().ranks.into_keys().collect();
    (before, host::parameter_bits(&stepper.model), optimized)
}

#[test]
fn frozen_stages_keep_every_bit_and_the_others_train() {
    for (config, frozen) in [
        (resnet("['stem', 'layer1']", ""), &["stem", "layer1"][..]),
        (resnet("['layer1', 'layer3.1']", ""), &["layer1", "layer3.1"]),
        (resnet("['stem', 'layer1', 'layer2', 'layer3', 'layer4']", ""), &["stem", "layer"]),
        (resnet("['stem', 'layer2']", "memory = { recompute = 'stages' }"), &["stem", "layer2"]),
        (resnet("['head']", "memory = { micro_batch = 8 }"), &["head"]),
        (recurrent("lstm", "['lstm.0', 'lstm.1']"), &["lstm.0", "lstm.1"]),
        (recurrent("lstm", "['lstm.1']"), &["lstm.1"]),
        (recurrent("gru", "['gru.0', 'gru.1']"), &["gru.0", "gru.1"]),
        (recurrent("gru", "['gru.1']"), &["gru.1"]),
    ] {
        let (before, after, optimized) = trained(&config);
        let is_frozen = |name: &str| frozen.iter().any(|frozen| name.starts_with(frozen));
        for ((name, before), (_, after)) in before.iter().zip(&after) {
            assert_eq!(before == after, is_frozen(name), "{name} of\n{config}");
        }
        assert!(!optimized.is_empty() && !optimized.iter().any(|name| is_frozen(name)), "{optimized:?}");
    }
}

/// The gradients of one step by the segments of the trainer, as the first step of plain descent shows them.
fn gradients(config: &str) -> Named<Vec<f32>> {
    let session = digits::session(config);
    let mut stepper = new_stepper(&session).unwrap().0;
    let before = model_record(&stepper.model).unwrap();
    let batch = digits::batches(&session, 1).remove(0);
    // A step so long that what it moves is far above the rounding of what is moved.
    const LR: f32 = 1024.0;
    stepper.step(batch, 0, f64::from(LR), &*session.task).unwrap();
    let mut gradients = Named::new();
    for (name, after) in model_record(&stepper.model).unwrap() {
        let moved =
            before[&name].values.iter().zip(&after.values).map(|(before, after)| (before - after) / LR);
        gradients.insert(name, moved.collect());
    }
    gradients
}

/// The same with the whole model on one graph.
fn gradients_on_one_graph(config: &str) -> Named<Vec<f32>> {
    let session = digits::session(config);
    let model = session.build().unwrap();
    let batch = digits::batches(&session, 1).remove(0);
    let device = Device::flex().autodiff();
    let (Values::Floats(values), Targets::Classes(classes)) = (&batch.input, &batch.targets) else {
        panic!("the digits are images with classes");
    };
    let input = AnyTensor::floats(values.clone(), &batch.shape, &device);
    let mut pass =
        Pass::train(Key::new(0)).with_policy(session.policy(oomph_engine::session::backend(&session)));
    let output = model.forward(input, &mut pass).unwrap();
    let classes = TensorData::new(classes.clone(), [classes.len()]);
    let targets = DeviceTargets::Classes(Tensor::<1, Int>::from_data(classes, &device));
    let loss = session.task.loss(&output, &targets).unwrap();
    let gradients = autodiff::backward(loss, &model);
    gradients.into_iter().map(|(name, gradient)| (name, gradient.to_host().unwrap())).collect()
}

#[test]
fn what_is_trained_has_the_gradients_it_has_on_one_graph() {
    for freeze in ["['stem', 'layer1']", "['layer1', 'layer3']", "['stem', 'layer2.0']"] {
        for lean in [true, false] {
            let config = format!(
                "model = {{ name = 'resnet18', width = 8, stem = 'small', freeze = {freeze} }}
                 data = {{ source = 'digits', workers = 0 }}
                 train = {{ batch = 16 }}
                 optimizer = {{ name = 'sgd' }}
                 memory = {{ lean = {lean} }}"
            );
            let expected = gradients_on_one_graph(&config);
            let found = gradients(&config);
            let mut comparison = Comparison::new(format!("freeze {freeze} lean={lean}"), TOLERANCE);
            for (name, expected) in &expected {
                let expected: Vec<f64> = expected.iter().map(|value| f64::from(*value)).collect();
                comparison.elements(name, &found[name], &expected);
            }
            comparison.finish();
        }
    }
}

#[test]
fn what_is_computed_again_changes_no_bit_beside_frozen_stages() {
    for freeze in ["['stem', 'layer1']", "['layer2']"] {
        let kept = trained(&resnet(freeze, ""));
        for recompute in ["'stages'", "'ops'", "['layer2', 'layer3']"] {
            let again = trained(&resnet(freeze, &format!("memory = {{ recompute = {recompute} }}")));
            assert!(kept == again, "freeze = {freeze}, recompute = {recompute}");
        }
    }
}

#[test]
fn in_every_precision_a_loss_can_go_down_beside_frozen_stages() {
    for precision in ["bf16", "fp16"] {
        let (before, after, _) =
            trained(&resnet("['stem', 'layer2']", &format!("memory = {{ precision = '{precision}' }}")));
        assert!(before != after, "{precision}");
    }
}

//! Every optimizer against PyTorch's (Adan and Lion against their papers' formulas), from configuration to updated parameters.

use std::collections::BTreeSet;

use burn::{
    module::{Module, Param},
    tensor::{Device, Tensor},
};
use oomph_config::{Config, Optimizer as Settings};
use oomph_engine::{
    optimizer::Optimizer,
    record::{OptimizerRecord, model_record},
};
use oomph_model::{AnyTensor, Kernels, ModelError, Named, Pass, Stage, Stages};
use oomph_runs::state::{About, CheckpointStore, TrainProgress, TrainState};

use crate::{compare::Comparison, golden::Golden, host};

/// Relative to the size of the parameter. Six steps in float32, each of a few roundings of 6e-8, where PyTorch's are
/// within 2e-7 of float64; what a step itself moves is 1e-2 and more, so a wrong term shows a thousandfold.
const TOLERANCE: f64 = 1e-5;
const STEPS: usize = 6;

/// The golden cases and the settings that ask for them. What a case leaves to its default is left to ours.
const CASES: [(&str, &str); 36] = [
    ("sgd", "name = 'sgd'"),
    ("sgd_decay", "name = 'sgd', weight_decay = 0.01"),
    ("sgd_momentum", "name = 'sgd', momentum = 0.9"),
    ("sgd_momentum_decay", "name = 'sgd', momentum = 0.9, weight_decay = 0.01"),
    ("sgd_nesterov", "name = 'sgd', momentum = 0.9, nesterov = true"),
    ("sgd_nesterov_decay", "name = 'sgd', momentum = 0.9, nesterov = true, weight_decay = 0.01"),
    ("sgd_dampening", "name = 'sgd', momentum = 0.9, dampening = 0.1"),
    ("adam", "name = 'adam', lr = 0.01"),
    ("adam_decay", "name = 'adam', lr = 0.01, weight_decay = 0.01"),
    ("adam_amsgrad", "name = 'adam', lr = 0.01, amsgrad = true"),
    ("adam_large_eps", "name = 'adam', lr = 0.01, epsilon = 0.1"),
    ("adamw", "name = 'adamw', lr = 0.01"),
    ("adamw_large_decay", "name = 'adamw', lr = 0.01, weight_decay = 0.5"),
    ("rmsprop", "name = 'rmsprop'"),
    ("rmsprop_decay", "name = 'rmsprop', weight_decay = 0.01"),
    ("rmsprop_momentum", "name = 'rmsprop', momentum = 0.9"),
    ("rmsprop_centered", "name = 'rmsprop', centered = true"),
    ("rmsprop_centered_momentum", "name = 'rmsprop', centered = true, momentum = 0.9"),
    ("rmsprop_large_eps", "name = 'rmsprop', epsilon = 0.1"),
    ("adagrad", "name = 'adagrad'"),
    ("adagrad_decay", "name = 'adagrad', weight_decay = 0.01"),
    ("adagrad_lr_decay", "name = 'adagrad', lr_decay = 0.1"),
    ("adagrad_large_eps", "name = 'adagrad', epsilon = 0.1"),
    ("adan", "name = 'adan', lr = 0.01"),
    ("adan_decay", "name = 'adan', lr = 0.01, weight_decay = 0.02"),
    ("adan_large_eps", "name = 'adan', lr = 0.01, epsilon = 0.1"),
    ("lion", "name = 'lion', lr = 0.01"),
    ("lion_decay", "name = 'lion', lr = 0.01, weight_decay = 0.5"),
    ("lion_betas", "name = 'lion', lr = 0.01, beta1 = 0.5, beta2 = 0.8"),
    ("adafactor", "name = 'adafactor'"),
    ("adafactor_decay", "name = 'adafactor', weight_decay = 0.5"),
    ("adafactor_large_lr", "name = 'adafactor', lr = 0.6"),
    ("adafactor_large_d", "name = 'adafactor', d = 100"),
    ("adafactor_beta2_decay", "name = 'adafactor', beta2_decay = -0.3"),
    ("adafactor_large_eps1", "name = 'adafactor', epsilon1 = 0.5"),
    ("adafactor_large_eps2", "name = 'adafactor', epsilon2 = 2.0"),
];

/// Adan's decay without a proximal step is not among our settings.
const NOT_OFFERED: &str = "adan_no_prox_decay";

#[test]
fn every_golden_case_is_compared() {
    let golden = Golden::open("optimizers");
    let stored: BTreeSet<_> =
        golden.names_below("").into_iter().filter_map(|key| key.split_once('.')).collect();
    let stored: BTreeSet<_> = stored.into_iter().map(|(case, _)| case).collect();
    let known: BTreeSet<_> = CASES.into_iter().map(|(case, _)| case).collect();
    let others = BTreeSet::from([NOT_OFFERED, "param", "grad"]);
    assert_eq!(stored, known.union(&others).copied().collect());
}

#[test]
fn six_steps_are_those_of_torch() {
    let golden = Golden::open("optimizers");
    for ((case, settings), kernels) in all_cases() {
        let settings = settings_of(settings);
        let (mut model, mut optimizer) = (start(&golden), Optimizer::new(&settings, kernels));
        let mut comparison = Comparison::new(format!("{case}, {kernels:?}"), TOLERANCE);
        for step in 0..STEPS {
            optimizer.step(settings.lr, &mut model, gradients(&golden, step));
            for (name, tensor) in model_record(&model).unwrap() {
                let name = name.trim_start_matches("model.");
                let expected = golden.get(&format!("{case}.{name}")).part(step);
                comparison.elements(&format!("{name} after {}", step + 1), &tensor.values, &expected.values);
            }
        }
        comparison.finish();
    }
}

#[test]
fn a_restored_optimizer_goes_on_to_the_bit() {
    let golden = Golden::open("optimizers");
    for ((case, settings), kernels) in all_cases() {
        let settings = settings_of(settings);
        let (mut model, mut optimizer) = (start(&golden), Optimizer::new(&settings, kernels));
        let steps = |range: std::ops::Range<usize>, model: &mut Stages, optimizer: &mut Optimizer| {
            range.for_each(|step| optimizer.step(settings.lr, model, gradients(&golden, step)));
        };
        steps(0..STEPS / 2, &mut model, &mut optimizer);
        let record = optimizer.record().unwrap();
        let (mut resumed_model, mut resumed) = (model.clone(), Optimizer::new(&settings, kernels));
        resumed.restore(by_checkpoint(&record), &resumed_model).unwrap();
        assert_eq!(resumed.record().unwrap(), record, "{case}: restoring and recording changes nothing");
        steps(STEPS / 2..STEPS, &mut model, &mut optimizer);
        steps(STEPS / 2..STEPS, &mut resumed_model, &mut resumed);
        assert_eq!(host::parameter_bits(&resumed_model), host::parameter_bits(&model), "{case}");
        assert_eq!(resumed.record().unwrap(), optimizer.record().unwrap(), "{case}");
    }
}

/// What is kept by one kind of kernels continues by the other.
#[test]
fn a_state_is_the_same_by_any_kernels() {
    let golden = Golden::open("optimizers");
    for (case, settings) in CASES {
        let settings = settings_of(settings);
        let after = |kernels: [Kernels; 2]| {
            let mut model = start(&golden);
            let [first, second] = kernels.map(|kernels| Optimizer::new(&settings, kernels));
            let (mut first, mut second) = (first, second);
            (0..3).for_each(|step| first.step(settings.lr, &mut model, gradients(&golden, step)));
            second.restore(by_checkpoint(&first.record().unwrap()), &model).unwrap();
            (3..STEPS).for_each(|step| second.step(settings.lr, &mut model, gradients(&golden, step)));
            model_record(&model).unwrap()
        };
        let (own, composed) =
            (after([Kernels::Composed, Kernels::Cpu]), after([Kernels::Cpu, Kernels::Composed]));
        let mut comparison = Comparison::new(case, TOLERANCE);
        for (name, tensor) in &own {
            let expected: Vec<f64> = composed[name].values.iter().copied().map(f64::from).collect();
            comparison.elements(name, &tensor.values, &expected);
        }
        comparison.finish();
    }
}

/// Every case by every kind of kernels.
fn all_cases() -> impl Iterator<Item = ((&'static str, &'static str), Kernels)> {
    let kernels = [Kernels::Cpu, Kernels::Composed].into_iter();
    kernels.flat_map(|kernels| CASES.into_iter().map(move |case| (case, kernels)))
}

/// A record as it comes back from disk.
fn by_checkpoint(record: &OptimizerRecord) -> OptimizerRecord {
    let directory = tempfile::tempdir().unwrap();
    let store = CheckpointStore::at(directory.path().join("checkpoints"));
    let state = TrainState {
        progress: TrainProgress::default(),
        model: Named::new(),
        optimizer: record.clone(),
        loss_scale: None,
        carried: Named::new(),
        average: None,
    };
    store.save(state, About { config: "", source: None }, 1).unwrap();
    store.newest().unwrap().unwrap().checkpoint.state().unwrap().optimizer
}

/// What is kept of each parameter of `[3, 4]`, `[5]`, `[2, 3, 2]` and `[3, 2, 2, 2]`.
#[test]
fn lion_keeps_a_value_and_adafactor_rows_and_columns() {
    let golden = Golden::open("optimizers");
    for (settings, expected) in [
        ("name = 'sgd'", [0, 0, 0, 0]),
        ("name = 'lion'", [3 * 4, 5, 2 * 3 * 2, 3 * 2 * 2 * 2]),
        ("name = 'adafactor'", [3 + 4, 5, 2 + 3 * 2, 3 + 2 * 2 * 2]),
    ] {
        let settings = settings_of(settings);
        let (mut model, mut optimizer) = (start(&golden), Optimizer::new(&settings, Kernels::Cpu));
        for step in 0..2 {
            optimizer.step(settings.lr, &mut model, gradients(&golden, step));
        }
        let kept = optimizer.record().unwrap().tensors;
        let found = ["a", "b", "c", "d"].map(|name| {
            let of = kept.iter().filter(|(leaf, _)| leaf.starts_with(&format!("model.{name}.")));
            of.map(|(_, tensor)| tensor.values.len()).sum::<usize>()
        });
        assert_eq!(found, expected, "{}", settings.kind.name());
    }
}

#[test]
fn a_parameter_without_gradient_stays_as_it_is() {
    let golden = Golden::open("optimizers");
    // Weight decay moves what is stepped, so it would show a parameter that is stepped without a gradient.
    let settings = settings_of("name = 'sgd', weight_decay = 0.5");
    let mut model = start(&golden);
    let mut gradients = gradients(&golden, 0);
    gradients.remove("model.b");
    Optimizer::new(&settings, Kernels::Cpu).step(settings.lr, &mut model, gradients);
    let record = model_record(&model).unwrap();
    assert_eq!(record["model.b"].values, golden.get("param.b").floats());
    assert_ne!(record["model.a"].values, golden.get("param.a").floats());
}

/// Four parameters and nothing to compute.
#[derive(Module, Debug)]
struct Parameters {
    a: Param<Tensor<2>>,
    b: Param<Tensor<1>>,
    c: Param<Tensor<3>>,
    d: Param<Tensor<4>>,
}

impl Stage for Parameters {
    fn forward(&self, input: AnyTensor, _pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        Ok(input)
    }
}

fn settings_of(inline: &str) -> Settings {
    Config::from_toml("optimizers", &format!("optimizer = {{ {inline} }}")).unwrap().optimizer
}

fn start(golden: &Golden) -> Stages {
    let device = Device::flex().autodiff();
    Stages::single(Parameters {
        a: Param::from_tensor(golden.get("param.a").tensor(&device)),
        b: Param::from_tensor(golden.get("param.b").tensor(&device)),
        c: Param::from_tensor(golden.get("param.c").tensor(&device)),
        d: Param::from_tensor(golden.get("param.d").tensor(&device)),
    })
}

fn gradients(golden: &Golden, step: usize) -> Named<AnyTensor> {
    let gradient = |name: &str| {
        let stored = golden.get(&format!("grad.{name}")).part(step);
        (format!("model.{name}"), AnyTensor::floats(stored.floats(), &stored.shape, &Device::flex()))
    };
    ["a", "b", "c", "d"].into_iter().map(gradient).collect()
}

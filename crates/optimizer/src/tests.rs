//! A small model for unit tests, and what concerns all optimizers.

use burn::{module::Module, tensor::Device};
use oomph_config::Config;
use oomph_model::{AnyTensor, Init, Kernels, ModelError, Named, Pass, Stage, Stages, layers::Linear};

use crate::{
    Optimizer,
    record::{HostTensor, model_record},
};

#[derive(Module, Debug)]
struct Dense {
    linear: Linear,
}

impl Stage for Dense {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.float::<2>(input)?;
        Ok(self.linear.forward(x, pass)?.into())
    }
}

/// A model of three linear stages on the autodiff device.
pub(crate) fn model() -> Stages {
    model_of([4, 4])
}

fn model_of(features: [usize; 2]) -> Stages {
    let init = Init::new(&device(), 7);
    let stage = |name: &str| Stages::new().with(name, Dense { linear: Linear::new(&init, features) });
    stage("stem").followed_by(stage("middle")).followed_by(stage("head"))
}

/// The CPU with autodiff.
pub(crate) fn device() -> Device {
    Device::flex().autodiff()
}

/// The parameters after three steps. Gradients do not depend on them.
fn trained(features: [usize; 2], optimizer: &str, kernels: Kernels) -> Named<HostTensor> {
    let config = Config::from_toml("decay", &format!("optimizer = {{ {optimizer}, lr = 0.01 }}"));
    // The tests below write them.
    let mut optimizer = Optimizer::new(&config.expect("the settings are valid").optimizer, kernels);
    let mut model = model_of(features);
    for step in 0..3 {
        let mut gradients = Named::new();
        model.visit(&mut |info, tensor| {
            let values = (0..tensor.elements()).map(|at| ((at + 7 * step) as f32).sin()).collect();
            gradients
                .insert(info.name.to_owned(), AnyTensor::floats(values, &tensor.dims(), &device().inner()));
        });
        optimizer.step(0.01, &mut model, gradients);
    }
    // No memory limit is set.
    model_record(&model).expect("the CPU does not fail")
}

#[test]
fn matrices_alone_decay() {
    // Vectors of 4,096 elements have packed state too.
    for (features, state) in [([4, 4], ""), ([1, 4096], ", state = 'int8'")] {
        for name in [
            "sgd', momentum = 0.9",
            "adam'",
            "adamw'",
            "lion'",
            "rmsprop'",
            "adagrad'",
            "adan'",
            "adafactor'",
        ] {
            if !state.is_empty() && ["rmsprop'", "adagrad'", "adan'", "adafactor'"].contains(&name) {
                continue;
            }
            for kernels in [Kernels::Cpu, Kernels::Composed] {
                if !state.is_empty() && kernels == Kernels::Composed {
                    continue;
                }
                let with = |decay: &str| trained(features, &format!("name = '{name}{state}{decay}"), kernels);
                let (all, none) = (with(", weight_decay = 0.5"), with(", weight_decay = 0.0"));
                let found = with(", weight_decay = 0.5, weight_decay_on = 'matrices'");
                for (parameter, found) in &found {
                    let of = if parameter.ends_with(".weight") { &all } else { &none };
                    assert_eq!(found, &of[parameter], "{parameter} by {name}{state}, {kernels:?}");
                    assert_ne!(all[parameter], none[parameter], "the decay changes {parameter} by {name}");
                }
            }
        }
    }
}

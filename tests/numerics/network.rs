//! A network beside PyTorch's: logits, loss and gradients, and its parameters after two steps of AdamW.

use burn::tensor::Device;
use oomph_config::Config;
use oomph_core::{Key, SampleSpec};
use oomph_engine::{
    optimizer::Optimizer,
    task::{Classification, DeviceTargets, Task},
};
use oomph_model::{AnyTensor, Architecture, Init, Kernels, Pass, Policy, Stages, autodiff};

use crate::{compare::Comparison, golden::Golden, host};

/// Relative, by norm.
pub(crate) const TOLERANCE: f64 = 1e-5;

/// The learning rate of the golden steps.
pub(crate) const RATE: f64 = 0.01;

/// The optimizer of the golden steps.
pub(crate) fn golden_optimizer(kernels: Kernels) -> Optimizer {
    let config = "optimizer = { name = 'adamw', lr = 0.01, weight_decay = 0.1, epsilon = 1e-4 }";
    Optimizer::new(&Config::from_toml("x", config).unwrap().optimizer, kernels)
}

pub(crate) const POLICIES: [(bool, Kernels); 3] =
    [(true, Kernels::Cpu), (true, Kernels::Composed), (false, Kernels::Composed)];

/// The CPU, with a graph.
pub(crate) fn device() -> Device {
    Device::flex().autodiff()
}

/// A network beside its golden values.
pub(crate) struct Network {
    pub(crate) architecture: Architecture,
    pub(crate) spec: SampleSpec,
    pub(crate) golden: Golden,
    /// What all of its keys begin with.
    pub(crate) prefix: String,
    /// The golden name of a parameter.
    pub(crate) name: fn(&Architecture, &str) -> String,
    pub(crate) batch: fn(&Golden) -> (AnyTensor, DeviceTargets),
}

impl Network {
    /// Compares by our own kernels, by our backward passes of Burn's operations, and by Burn's.
    pub(crate) fn check(&self) {
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
        let mut optimizer = golden_optimizer(policy.kernels);
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
            optimizer.step(RATE, &mut model, gradients);
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

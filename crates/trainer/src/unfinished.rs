use std::collections::BTreeMap;

use burn::module::ParamId;
use burn::tensor::Device;
use oomph_memory::{Account, charge};
use oomph_model::{AnyTensor, Stages};

use crate::state::{HostTensor, StateError};

/// What a step changed in the model before it was finished: running statistics. With it a step that ends in an error, or
/// is skipped, is taken back, so that the model is what the last finished step left.
#[derive(Debug)]
pub(crate) struct Unfinished {
    how: Keeping,
    before: BTreeMap<ParamId, Before>,
}

/// How what a step replaces is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// Not at all: no step is taken back.
    Nothing,
    /// In host memory: on the device a step takes what it takes. To copy makes the step wait for the device.
    Copies,
    /// Where it is, by a reference: nothing is copied, and nobody waits.
    References,
}

/// A tensor as it was.
#[derive(Debug)]
enum Before {
    Copy(HostTensor),
    Reference(Box<AnyTensor>),
}

impl Unfinished {
    /// A step that has changed nothing yet.
    pub(crate) fn new(how: Keeping) -> Self {
        Self { how, before: BTreeMap::new() }
    }

    /// Keeps what `updates` are about to replace, where it is the first time in this step.
    pub(crate) fn keep(
        &mut self,
        model: &Stages,
        updates: &[(ParamId, AnyTensor)],
    ) -> Result<(), StateError> {
        let Self { how, before } = self;
        if *how == Keeping::Nothing {
            return Ok(());
        }
        charge(Account::Host, || {
            let mut failed = None;
            model.visit(&mut |info, tensor| {
                let is_new = updates.iter().any(|(id, _)| *id == info.id) && !before.contains_key(&info.id);
                if is_new {
                    match Before::of(tensor, *how) {
                        Ok(tensor) => drop(before.insert(info.id, tensor)),
                        Err(error) => failed = failed.take().or(Some(error)),
                    }
                }
            });
            failed.map_or(Ok(()), Err)
        })
    }

    /// Puts it back.
    pub(crate) fn take_back(&mut self, model: &mut Stages, device: &Device) {
        let before = std::mem::take(&mut self.before).into_iter();
        model.apply(before.map(|(id, tensor)| (id, tensor.into_tensor(device))).collect());
    }
}

impl Before {
    fn of(tensor: AnyTensor, how: Keeping) -> Result<Self, StateError> {
        match how {
            Keeping::Copies => HostTensor::from_tensor(&tensor).map(Self::Copy),
            Keeping::Nothing | Keeping::References => Ok(Self::Reference(Box::new(tensor.inner()))),
        }
    }

    fn into_tensor(self, device: &Device) -> AnyTensor {
        match self {
            Self::Copy(tensor) => tensor.to_tensor(device),
            Self::Reference(tensor) => *tensor,
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::module::Module;
    use oomph_model::{Init, ModelError, Pass, Stage, layers::BatchNorm};

    use super::*;
    use crate::state::model_record;

    #[derive(Module, Debug)]
    struct Norm {
        norm: BatchNorm,
    }

    impl Stage for Norm {
        fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
            let x = pass.float::<4>(input)?;
            Ok(self.norm.forward(x, pass)?.into())
        }
    }

    #[test]
    fn what_was_replaced_twice_comes_back_as_it_was_at_first() {
        let device = Device::flex().autodiff();
        for how in [Keeping::Copies, Keeping::References] {
            let mut model = Stages::single(Norm { norm: BatchNorm::new(&Init::new(&device, 1), 3) });
            let before = model_record(&model).expect("the CPU does not fail");
            let mut unfinished = Unfinished::new(how);
            for value in [f32::INFINITY, f32::NAN] {
                let mut updates = Vec::new();
                model.visit(&mut |info, tensor| {
                    if !info.trainable {
                        updates.push((info.id, tensor.inner().scale(value)));
                    }
                });
                unfinished.keep(&model, &updates).expect("the CPU does not fail");
                model.apply(updates);
            }
            let broken = model_record(&model).expect("the CPU does not fail");
            assert!(broken.values().flat_map(|tensor| &tensor.values).any(|value| value.is_nan()));
            unfinished.take_back(&mut model, &device);
            assert_eq!(model_record(&model).expect("the CPU does not fail"), before, "{how:?}");
        }
    }
}

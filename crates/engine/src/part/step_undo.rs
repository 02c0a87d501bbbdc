use std::collections::BTreeMap;

use burn::{module::ParamId, tensor::Device};
use oomph_memory::{Account, charge};
use oomph_model::{AnyTensor, Stages};

use crate::record::{HostTensor, RecordError};

/// The running statistics that a step replaced. Restoring them undoes a failed or skipped step, so that the model is
/// the one after the last finished step.
#[derive(Debug)]
pub(crate) struct StepUndo {
    how: UndoMode,
    before: BTreeMap<ParamId, Before>,
}

/// How the replaced tensors are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoMode {
    /// Not at all: a failed step cannot be undone.
    Nothing,
    /// As copies in host memory. Device memory stays the same, but each copy waits for the device.
    Copies,
    /// As references to the old tensors on the device: no copy and no wait, but the old tensors stay alive.
    References,
}

/// A replaced tensor.
#[derive(Debug)]
enum Before {
    Copy(HostTensor),
    Reference(Box<AnyTensor>),
}

impl StepUndo {
    /// The state before a step changes anything.
    pub(crate) fn new(how: UndoMode) -> Self {
        Self { how, before: BTreeMap::new() }
    }

    /// Keeps the tensors that `updates` will replace for the first time in this step.
    ///
    /// # Errors
    /// If the device fails while a tensor is copied.
    pub(crate) fn keep(
        &mut self,
        model: &Stages,
        updates: &[(ParamId, AnyTensor)],
    ) -> Result<(), RecordError> {
        let Self { how, before } = self;
        if *how == UndoMode::Nothing {
            return Ok(());
        }
        charge(Account::Host, || {
            model.try_visit(|info, tensor| {
                if updates.iter().any(|(id, _)| *id == info.id) && !before.contains_key(&info.id) {
                    let kept = match how {
                        UndoMode::Copies => Before::Copy(HostTensor::from_tensor(&tensor)?),
                        _ => Before::Reference(Box::new(tensor.inner())),
                    };
                    before.insert(info.id, kept);
                }
                Ok(())
            })
        })
    }

    /// Restores the kept tensors into `model`, on `device`.
    pub(crate) fn take_back(&mut self, model: &mut Stages, device: &Device) {
        let before = std::mem::take(&mut self.before).into_iter();
        let restored = before.map(|(id, tensor)| match tensor {
            Before::Copy(tensor) => (id, tensor.to_tensor(device)),
            Before::Reference(tensor) => (id, *tensor),
        });
        model.apply(restored.collect());
    }
}

#[cfg(test)]
mod tests {
    use burn::module::Module;
    use oomph_model::{Init, ModelError, Pass, Stage, layers::BatchNorm};

    use super::*;
    use crate::record::model_record;

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
    fn a_tensor_replaced_twice_is_restored_to_its_first_value() {
        let device = Device::flex().autodiff();
        for how in [UndoMode::Copies, UndoMode::References] {
            let mut model = Stages::single(Norm { norm: BatchNorm::new(&Init::new(&device, 1), 3) });
            let before = model_record(&model).expect("the CPU does not fail");
            let mut undo = StepUndo::new(how);
            for value in [f32::INFINITY, f32::NAN] {
                let mut updates = Vec::new();
                model.visit(&mut |info, tensor| {
                    if !info.trainable {
                        updates.push((info.id, tensor.inner().scale(value)));
                    }
                });
                undo.keep(&model, &updates).expect("the CPU does not fail");
                model.apply(updates);
            }
            let broken = model_record(&model).expect("the CPU does not fail");
            assert!(broken.values().flat_map(|tensor| &tensor.values).any(|value| value.is_nan()));
            undo.take_back(&mut model, &device);
            assert_eq!(model_record(&model).expect("the CPU does not fail"), before, "{how:?}");
        }
    }
}

use std::collections::BTreeMap;

use burn::module::ParamId;
use burn::tensor::Device;
use oomph_memory::{Account, charge};
use oomph_model::{AnyTensor, Stages};

use crate::state::{HostTensor, StateError};

/// What a step changed in the model before it was finished: running statistics. With it a step that ends in an error is
/// taken back, so that the model is what the last finished step left.
///
/// The copies are the host's: on the device a step takes what it takes.
#[derive(Debug, Default)]
pub(crate) struct Unfinished(BTreeMap<ParamId, HostTensor>);

impl Unfinished {
    /// Keeps what `updates` are about to replace, where it is the first time in this step.
    pub(crate) fn keep(
        &mut self,
        model: &Stages,
        updates: &[(ParamId, AnyTensor)],
    ) -> Result<(), StateError> {
        charge(Account::Host, || {
            let mut failed = None;
            model.visit(&mut |info, tensor| {
                let is_new = updates.iter().any(|(id, _)| *id == info.id) && !self.0.contains_key(&info.id);
                if is_new {
                    match HostTensor::from_tensor(&tensor) {
                        Ok(before) => drop(self.0.insert(info.id, before)),
                        Err(error) => failed = failed.take().or(Some(error)),
                    }
                }
            });
            failed.map_or(Ok(()), Err)
        })
    }

    /// Puts it back.
    pub(crate) fn take_back(self, model: &mut Stages, device: &Device) {
        let before = self.0.into_iter().map(|(id, tensor)| (id, tensor.to_tensor(device)));
        model.apply(before.collect());
    }
}

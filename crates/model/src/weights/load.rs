use burn::tensor::Device;
use oomph_core::{Account, charge};

use super::{Fit, WeightFile, WeightsError};
use crate::{AnyTensor, Stages};

/// Puts what of `file` [fits](super::fit()) into `model`, whose parameters stay on `device`. One tensor after the other
/// is read, so that no second model is ever in host memory.
///
/// # Errors
/// Where the file cannot be read, or a value is not finite; a part of the model has new values then.
pub fn load(model: &mut Stages, file: &WeightFile, fit: &Fit, device: &Device) -> Result<(), WeightsError> {
    for (first, second) in &fit.twins {
        if values(file, first)? != values(file, second)? {
            let [first, second] = [first, second].map(|name| super::error::shown(name));
            return Err(WeightsError::NotTied { path: file.path().to_owned(), first, second });
        }
    }
    let mut failed = None;
    model.map(&mut |info, tensor| {
        let Some(name) = fit.sources.get(info.name).filter(|_| failed.is_none()) else { return tensor };
        let (trainable, shape) = (info.trainable, tensor.dims());
        match charge(Account::Host, || values(file, name)) {
            // Copied, so that what the device holds is on its own account.
            Ok(values) => AnyTensor::floats(values.clone(), &shape, device).tracked_like(&tensor, trainable),
            Err(error) => {
                failed = Some(error);
                tensor
            }
        }
    });
    failed.map_or(Ok(()), Err)
}

fn values(file: &WeightFile, name: &str) -> Result<Vec<f32>, WeightsError> {
    // It fits, so it is there.
    let values = file.read(name)?.unwrap_or_default();
    match values.iter().all(|value| value.is_finite()) {
        true => Ok(values),
        false => {
            Err(WeightsError::NotFinite { path: file.path().to_owned(), name: super::error::shown(name) })
        }
    }
}

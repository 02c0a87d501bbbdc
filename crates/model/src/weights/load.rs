use burn::tensor::Device;
use oomph_core::{Account, charge};

use super::{error::WeightsError, file::WeightFile, fit::Fit, shown::shown};
use crate::{AnyTensor, Stages};

/// Loads the tensors of `file` that [fit](super::fit()) into `model`, whose parameters stay on `device`. Tensors are read one
/// by one, so that host memory never holds a second model.
///
/// # Errors
/// The file cannot be read, or a value is not finite. The model is then partly loaded.
pub fn load(model: &mut Stages, file: &WeightFile, fit: &Fit, device: &Device) -> Result<(), WeightsError> {
    for (first, second) in &fit.twins {
        if values(file, first)? != values(file, second)? {
            let [first, second] = [first, second].map(|name| shown(name));
            return Err(WeightsError::NotTied { path: file.path().to_owned(), first, second });
        }
    }
    let mut failed = None;
    model.map(&mut |info, tensor| {
        let Some(name) = fit.sources.get(info.name).filter(|_| failed.is_none()) else { return tensor };
        let (trainable, shape) = (info.trainable, tensor.dims());
        let form = fit.forms.get(info.name).cloned().unwrap_or_default();
        match charge(Account::Host, || Ok(form.to_own(values(file, name)?, &shape))) {
            // A copy is charged to the device's account.
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
    // `fit` found the tensor in the file.
    let values = file.read(name)?.unwrap_or_default();
    match values.iter().all(|value| value.is_finite()) {
        true => Ok(values),
        false => Err(WeightsError::NotFinite { path: file.path().to_owned(), name: shown(name) }),
    }
}

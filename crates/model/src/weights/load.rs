use burn::tensor::Device;
use oomph_core::{Account, charge};

use super::{error::WeightsError, file::WeightFile, fit::Fit, layout::TensorPart, shown::shown};
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
        let Some(parts) = fit.sources.get(info.name).filter(|_| failed.is_none()) else { return tensor };
        let (trainable, shape) = (info.trainable, tensor.dims());
        match charge(Account::Host, || joined(file, parts)) {
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

/// The values of a parameter: those of its parts, one behind the other.
fn joined(file: &WeightFile, parts: &[TensorPart]) -> Result<Vec<f32>, WeightsError> {
    let own = |TensorPart { name, shape, form }: &TensorPart| Ok(form.to_own(values(file, name)?, shape));
    if let [whole] = parts {
        return own(whole);
    }
    let mut joined = Vec::with_capacity(parts.iter().map(TensorPart::elements).sum());
    for part in parts {
        joined.append(&mut own(part)?);
    }
    Ok(joined)
}

fn values(file: &WeightFile, name: &str) -> Result<Vec<f32>, WeightsError> {
    // `fit` found the tensor in the file.
    let values = file.read(name)?.unwrap_or_default();
    match values.iter().all(|value| value.is_finite()) {
        true => Ok(values),
        false => Err(WeightsError::NotFinite { path: file.path().to_owned(), name: shown(name) }),
    }
}

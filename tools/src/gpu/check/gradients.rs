//! The gradients of one step, compared by their norm.

use std::{collections::BTreeMap, error::Error, fs, path::Path};

use safetensors::SafeTensors;

/// Weights behind one long step of SGD, by name: the gradients times the learning rate, to the precision of 32 bits.
pub(super) type Gradients = BTreeMap<String, Vec<f32>>;

/// The gradients of a run of one step. Running statistics are no parameters, and left out.
pub(super) fn of(run: &Path) -> Result<Gradients, Box<dyn Error>> {
    let bytes = fs::read(run.join("checkpoints/latest/model.safetensors"))?;
    let tensors = SafeTensors::deserialize(&bytes)?;
    let parameters = tensors.iter().filter(|(name, _)| !name.contains("running"));
    let values = |bytes: &[u8]| bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    Ok(parameters.map(|(name, tensor)| (name.to_owned(), values(tensor.data()))).collect())
}

/// The norm of the difference of all gradients, as a share of the norm of the `right` ones, unless it is more than `most`.
pub(super) fn close(found: &Gradients, right: &Gradients, most: f64) -> Result<f64, Box<dyn Error>> {
    if found.is_empty() || !found.keys().eq(right.keys()) {
        return Err(format!("{} parameters instead of {}", found.len(), right.len()).into());
    }
    let of_parameter = |name: &String| squares(found[name].iter().zip(&right[name]).map(|(a, b)| a - b));
    let difference: f64 = right.keys().map(of_parameter).sum();
    let whole: f64 = right.values().map(|values| squares(values.iter().copied())).sum();
    let share = (difference / whole).sqrt();
    // Not a number is refused, too.
    if share <= most {
        return Ok(share);
    }
    let worst = right.keys().max_by(|a, b| of_parameter(a).total_cmp(&of_parameter(b)));
    Err(format!("gradients differ by {share:.1e} of their norm, most in {}", worst.map_or("", |name| name))
        .into())
}

/// The sum of squares.
fn squares(values: impl Iterator<Item = f32>) -> f64 {
    values.map(|value| f64::from(value).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_that_differ_are_found() {
        let of = |values: [f32; 2]| {
            Gradients::from([("a".into(), vec![values[0]]), ("b".into(), vec![values[1]])])
        };
        let right = of([3.0, 4.0]);
        assert!((close(&of([3.0, 4.01]), &right, 0.01).unwrap() - 0.002).abs() < 1e-6);
        let refused = |found: &Gradients| close(found, &right, 0.01).unwrap_err().to_string();
        assert_eq!(refused(&of([3.0, 4.5])), "gradients differ by 1.0e-1 of their norm, most in b");
        assert!(refused(&of([f32::NAN, 4.0])).contains("NaN"));
        assert_eq!(refused(&Gradients::new()), "0 parameters instead of 2");
    }
}

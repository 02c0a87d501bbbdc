//! The losses of trainings, compared step by step.

use std::{error::Error, fs, path::Path};

use serde_json::Value;

/// The loss of each step of a run.
pub(super) fn of(run: &Path) -> Result<Vec<f64>, Box<dyn Error>> {
    let metrics = fs::read_to_string(run.join("metrics.jsonl"))?;
    let events: Vec<Value> = metrics.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let steps = events.iter().filter(|event| event["event"] == "step");
    Ok(steps.filter_map(|event| event["loss"].as_f64()).collect())
}

/// The largest difference, unless one exceeds what is allowed.
pub(super) fn close(found: &[f64], right: &[f64], most: f64) -> Result<f64, Box<dyn Error>> {
    if found.len() != right.len() || found.is_empty() {
        return Err(format!("{} losses instead of {}", found.len(), right.len()).into());
    }
    let mut largest = 0.0;
    for (step, share) in shares(found, right).into_iter().enumerate() {
        if share.is_nan() || share > most {
            let [found, right] = [found, right].map(|losses| losses[step]);
            return Err(format!("step {}: loss {found} instead of {right}", step + 1).into());
        }
        largest = share.max(largest);
    }
    Ok(largest)
}

/// The differences of losses, as shares.
pub(super) fn shares(found: &[f64], right: &[f64]) -> Vec<f64> {
    found.iter().zip(right).map(|(found, right)| (found / right - 1.0).abs()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_that_differ_are_found() {
        let right = [2.0, 1.0];
        let of = |found: &[f64]| close(found, &right, 0.01).map_err(|error| error.to_string());
        assert!(of(&[2.002, 1.0]).unwrap() < 0.0011);
        assert_eq!(of(&[2.0, 1.1]).unwrap_err(), "step 2: loss 1.1 instead of 1");
        assert!(of(&[2.0, f64::NAN]).unwrap_err().contains("NaN"));
        assert_eq!(of(&[2.0]).unwrap_err(), "1 losses instead of 2");
        assert!(of(&[]).is_err());
    }
}

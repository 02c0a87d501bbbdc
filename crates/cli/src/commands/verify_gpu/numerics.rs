//! Losses on the GPU against losses on the CPU.

use oomph_config::{DeviceName, Precision};
use oomph_trainer::device::{cuda_libraries, find_precision};
use serde_json::json;

use super::{
    figures::{CheckError, Figures, SkipReason},
    runner::{Losses, Runner},
    trainings::{LANGUAGE, LSTM, RESNET, Training},
};

/// A training in a precision.
#[derive(Debug)]
pub(super) struct Numerics {
    training: &'static Training,
    precision: Precision,
    /// Settings of the training in 16 bits.
    settings: &'static [&'static str],
}

/// Steps whose losses are compared.
const STEPS: usize = 8;
/// The losses of ResNets differ widely after more steps in 16 bits, on the CPU too.
const FEW_STEPS: usize = 3;
const SMALL_LR: &[&str] = &["optimizer.lr=1e-3"];

/// The largest difference in fp32, as a share of a loss.
const FP32_LIMIT: f64 = 1e-3;
/// The same where tensor cores round factors to TF32, which has 10 bits of mantissa: a simulated A100 had 2e-3.
const TF32_LIMIT: f64 = 5e-3;
/// The CPU's own deviation of 16 bits from 32 bits may be small by chance, so this share of a loss passes in any case.
const FP16_FLOOR: f64 = 2e-3;
const BF16_FLOOR: f64 = 5e-3;

/// The trainings, in the order of their checks.
pub(super) fn list(is_quick: bool) -> Vec<Numerics> {
    let case = |training, precision, settings| Numerics { training, precision, settings };
    let mut list = vec![
        case(&RESNET, Precision::Fp32, &[]),
        case(&LSTM, Precision::Fp32, &[]),
        case(&LANGUAGE, Precision::Fp32, &[]),
        case(&RESNET, Precision::Fp16, SMALL_LR),
        case(&LSTM, Precision::Bf16, &[]),
    ];
    if !is_quick {
        list.extend([
            case(&LSTM, Precision::Fp16, &[]),
            case(&LANGUAGE, Precision::Fp16, &[]),
            case(&RESNET, Precision::Bf16, SMALL_LR),
            case(&LANGUAGE, Precision::Bf16, &[]),
        ]);
    }
    list
}

impl Numerics {
    pub(super) fn label(&self) -> String {
        format!("{}, {}", self.training.name, self.precision.name())
    }

    pub(super) fn compares(&self, device: DeviceName) -> String {
        let precision = self.precision.name();
        match (device, self.precision) {
            (DeviceName::Cpu, _) => {
                format!("losses of two trainings on cpu in {precision}, which must be equal")
            }
            (_, Precision::Fp32) => format!("losses on {device} against those on cpu"),
            _ => format!(
                "losses on {device} in {precision} against those on cpu in fp32; the limit is twice the deviation of \
                 cpu in {precision}"
            ),
        }
    }

    pub(super) fn check(&self, runner: &mut Runner<'_>) -> Result<Figures, CheckError> {
        find_precision(runner.device, self.precision).map_err(SkipReason::Precision)?;
        let steps = if runner.is_quick || !self.settings.is_empty() { FEW_STEPS } else { STEPS };
        let settings = |precision: Precision| -> Vec<String> {
            let precision = format!("memory.precision={}", precision.name());
            self.settings.iter().map(|text| (*text).to_owned()).chain([precision]).collect()
        };
        let own = settings(self.precision);
        let losses = runner.losses(self.training, &own, steps)?;
        let cpu_losses = runner.cpu_losses(self.training, &own, steps)?;
        let wide = match self.precision {
            Precision::Fp32 => cpu_losses.clone(),
            _ => runner.cpu_losses(self.training, &settings(Precision::Fp32), steps)?,
        };
        let deviation = largest_share(&cpu_losses, &wide);
        let has_tf32 = self.precision == Precision::Fp32 && has_tf32(runner.device);
        let (right, limit) = match runner.device {
            DeviceName::Cpu => (&cpu_losses, Some(0.0)),
            _ => (&wide, self.limit(deviation, has_tf32)),
        };
        let difference = largest_share(&losses, right);
        Ok(Figures {
            passes: matches!((difference, limit), (Some(difference), Some(limit)) if difference <= limit),
            limit,
            finding: finding(difference, has_tf32),
            values: json!({
                "steps": steps,
                "losses": losses,
                "cpu_losses": cpu_losses,
                "cpu_fp32_losses": wide,
                "largest_difference": difference,
                "cpu_deviation": deviation,
                "tf32": has_tf32,
            }),
        })
    }

    /// The largest difference that passes on a GPU. `None` if the CPU itself has no finite losses.
    fn limit(&self, deviation: Option<f64>, has_tf32: bool) -> Option<f64> {
        match self.precision {
            Precision::Fp32 if has_tf32 => Some(TF32_LIMIT),
            Precision::Fp32 => Some(FP32_LIMIT),
            Precision::Fp16 => Some(2.0 * deviation? + FP16_FLOOR),
            Precision::Bf16 => Some(2.0 * deviation? + BF16_FLOOR),
        }
    }
}

fn finding(difference: Option<f64>, has_tf32: bool) -> String {
    let tf32 = if has_tf32 { "; the card rounds factors to TF32" } else { "" };
    match difference {
        Some(0.0) => format!("all losses are equal{tf32}"),
        Some(difference) => format!("largest difference {difference:.1e} of a loss{tf32}"),
        None => "a loss is missing or not finite".to_owned(),
    }
}

/// Whether tensor cores of the card round the factors of products in fp32: from compute capability 8.0 on.
fn has_tf32(device: DeviceName) -> bool {
    let DeviceName::Cuda(index) = device else { return false };
    let driver = cuda_libraries().and_then(|libraries| libraries.driver.ok());
    driver.is_some_and(|driver| driver.capabilities.get(index).is_some_and(|(major, _)| *major >= 8))
}

/// The largest difference of two losses, as a share of the right one. `None` if one is missing or not finite.
fn largest_share(found: &Losses, right: &Losses) -> Option<f64> {
    if found.len() != right.len() || found.is_empty() {
        return None;
    }
    let pairs = found.iter().zip(right);
    let shares: Option<Vec<f64>> = pairs.map(|(found, right)| Some(share((*found)?, (*right)?))).collect();
    shares.map(|shares| shares.into_iter().fold(0.0, f64::max))
}

fn share(found: f64, right: f64) -> f64 {
    if found == right { 0.0 } else { (found / right - 1.0).abs() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_difference_counts() {
        let right = vec![Some(2.0), Some(1.0)];
        assert_eq!(largest_share(&right, &right), Some(0.0));
        assert!((largest_share(&vec![Some(2.0), Some(1.1)], &right).unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(largest_share(&vec![Some(2.0), None], &right), None);
        assert_eq!(largest_share(&vec![Some(2.0)], &right), None);
        assert_eq!(largest_share(&Vec::new(), &Vec::new()), None);
    }

    #[test]
    fn sixteen_bits_may_deviate_twice_as_much_as_on_the_cpu() {
        let of = |precision| Numerics { training: &LSTM, precision, settings: &[] };
        assert_eq!(of(Precision::Fp32).limit(Some(0.5), false), Some(1e-3));
        assert_eq!(of(Precision::Fp32).limit(Some(0.5), true), Some(5e-3));
        assert_eq!(of(Precision::Fp16).limit(Some(0.1), false), Some(0.202));
        assert_eq!(of(Precision::Bf16).limit(None, false), None);
    }
}

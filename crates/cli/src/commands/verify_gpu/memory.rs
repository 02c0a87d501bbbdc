//! Planned memory against measured memory.

use oomph_config::DeviceName;
use serde_json::json;

use super::{
    figures::{CheckError, Figures},
    runner::Runner,
    trainings::{LANGUAGE, RESNET, RESNET18, RESNET50, Training, WIDE_LSTM},
};
use crate::{numbers::signed_share, probe::PlannedAndMeasured};

/// Steps before those that are read: the first makes the optimizer state.
const WARMUP: usize = 2;
/// Steps that are read.
const STEPS: usize = 3;

/// The largest difference, as a share of the measured bytes.
const LIMIT: f64 = 0.03;
/// A difference that no share is of: a few small blocks of a training that needs little.
const FLOOR: u64 = 64 << 10;

/// The trainings, in the order of their checks.
pub(super) fn list(is_quick: bool) -> &'static [&'static Training] {
    const ALL: [&Training; 5] = [&RESNET, &WIDE_LSTM, &LANGUAGE, &RESNET18, &RESNET50];
    if is_quick { &ALL[..2] } else { &ALL }
}

pub(super) fn check(training: &'static Training, runner: &mut Runner<'_>) -> Result<Figures, CheckError> {
    let config = runner.fitting(training)?;
    let steps = if runner.is_quick { 1 } else { STEPS };
    let found = runner.profiled(&config, WARMUP, steps)?;
    runner.accounts.extend(found.card.map(|account| (training.name, account)));
    let compared = [Some(("in use", found.in_use)), found.reserved.map(|reserved| ("reserved", reserved))];
    let compared: Vec<_> = compared.into_iter().flatten().collect();
    let has_all = runner.device == DeviceName::Cpu || found.reserved.is_some();
    let describe = |(name, bytes): &(&str, PlannedAndMeasured)| {
        let PlannedAndMeasured { planned_bytes, measured_bytes } = bytes;
        format!("{name} {measured_bytes}, planned {planned_bytes} ({})", signed_share(bytes.difference()))
    };
    let mut finding = compared.iter().map(describe).collect::<Vec<_>>().join("; ");
    if !has_all {
        finding += "; the plan has no reserved bytes";
    }
    Ok(Figures {
        passes: has_all && compared.iter().all(|(_, bytes)| is_close(*bytes)),
        limit: Some(LIMIT),
        finding,
        values: json!({
            "batch": config.train.batch,
            "in_use": found.in_use,
            "in_use_difference": found.in_use.difference(),
            "reserved": found.reserved,
            "reserved_difference": found.reserved.map(PlannedAndMeasured::difference),
        }),
    })
}

fn is_close(bytes: PlannedAndMeasured) -> bool {
    let PlannedAndMeasured { planned_bytes, measured_bytes } = bytes;
    bytes.difference().abs() <= LIMIT || planned_bytes.get().abs_diff(measured_bytes.get()) <= FLOOR
}

#[cfg(test)]
mod tests {
    use oomph_core::Bytes;

    use super::*;

    #[test]
    fn a_difference_is_small_by_its_share_or_by_its_bytes() {
        let close = |planned: u64, measured: u64| {
            is_close(PlannedAndMeasured {
                planned_bytes: Bytes::new(planned),
                measured_bytes: Bytes::new(measured),
            })
        };
        assert!(close(301 << 10, 290 << 10) && close(102 << 20, 100 << 20));
        assert!(!close(400 << 10, 300 << 10) && !close(100 << 20, 104 << 20));
    }
}

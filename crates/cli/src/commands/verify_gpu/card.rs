//! The pools of a GPU against the driver's account of the process.

use oomph_config::DeviceName;
use oomph_core::Bytes;
use serde_json::{Value, json};

use super::{
    figures::{CheckError, Figures, SkipReason},
    runner::Runner,
};

/// Checks that the driver counts at least what the pools reserve. The rest belongs to CUDA itself and to kernels.
pub(super) fn check(runner: &Runner<'_>) -> Result<Figures, CheckError> {
    let device = runner.device;
    let accounts = runner.accounts.iter();
    let answered: Vec<_> = accounts
        .filter_map(|(training, account)| Some((training, account.reserved_bytes, account.driver?)))
        .collect();
    if answered.is_empty() || !matches!(device, DeviceName::Cuda(_)) {
        return Err(SkipReason::NoAccount { device }.into());
    }
    let listed: Vec<(Bytes, Bytes)> = answered
        .iter()
        .filter_map(|(_, reserved, driver)| Some((*reserved, driver.process_total_bytes?)))
        .collect();
    if listed.is_empty() {
        return Err(SkipReason::Unlisted.into());
    }
    let contexts = listed.iter().map(|(reserved, total)| total.saturating_sub(*reserved));
    let values = answered.iter().map(
        |(training, reserved, driver)| json!({ "training": training, "reserved_bytes": reserved, "driver": driver }),
    );
    Ok(Figures {
        passes: listed.iter().all(|(reserved, total)| total >= reserved),
        limit: None,
        finding: match contexts.clone().min().zip(contexts.max()) {
            Some((least, most)) if least == most => format!("the driver counts {least} more than the pools"),
            Some((least, most)) => format!("the driver counts {least} to {most} more than the pools"),
            None => String::new(),
        },
        values: values.collect::<Value>(),
    })
}

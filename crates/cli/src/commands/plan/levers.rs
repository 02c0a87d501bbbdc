use oomph_advice::out_of_memory::Advice;
use oomph_core::Bytes;

use crate::{
    numbers::percent,
    table::{
        Column::{Left, Right},
        Table,
    },
};

/// Settings that make a plan fit, with the new peak and the cost of each.
pub(super) fn lever_table(levers: &[Advice]) -> Table<4> {
    let mut table = Table::new([Left(""), Right(""), Left(""), Left("")]);
    for advice in levers {
        let peak = format!("planned peak {}", advice.planned_peak_bytes);
        table.row([format!("  {}", advice.typed()), peak, advice.time(), advice.about.clone()]);
    }
    table
}

/// Whether a planned peak fits a limit, or why not; `share` is the safety margin.
pub(super) fn verdict(fits: Option<bool>, share: f64, peak: Bytes, limit: Option<Bytes>) -> String {
    match (fits, limit) {
        (Some(true), _) => "fits".to_owned(),
        (Some(false), Some(limit)) if peak > limit => format!("needs {} more", peak.saturating_sub(limit)),
        (Some(false), Some(_)) => format!("fits only without the {} margin", margin(share)),
        _ => String::new(),
    }
}

/// `15 %`.
pub(super) fn margin(share: f64) -> String {
    percent(share).replace(".0 %", " %")
}

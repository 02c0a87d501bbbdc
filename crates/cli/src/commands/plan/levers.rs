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
        table.row([format!("  {}", advice.flags().join(" ")), peak, advice.time(), advice.about.clone()]);
    }
    table
}

/// Why a planned peak does not fit a limit; `share` is the safety margin.
pub(super) fn shortage(share: f64, peak: Bytes, limit: Bytes) -> String {
    match peak.get().checked_sub(limit.get()) {
        Some(more) if more > 0 => format!("needs {} more", Bytes::new(more)),
        _ => format!("fits only without the {} margin", margin(share)),
    }
}

/// `15 %`.
pub(super) fn margin(share: f64) -> String {
    percent(share).replace(".0 %", " %")
}

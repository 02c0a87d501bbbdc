//! The results as JSON and as a table.

use std::path::Path;

use oomph_core::printable;
use oomph_doctor::GPU_BACKEND;
use serde::Serialize;

use super::{
    arguments::VerifyGpuArguments,
    row::{CheckRow, CheckVerdict},
};
use crate::{
    numbers::{elapsed, percent, plural},
    table::{
        Column::{Left, Right},
        Table,
    },
};

/// The version of the file's format.
const FORMAT: u32 = 1;

/// The content of the file.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    format: u32,
    version: &'static str,
    /// The GPU backend of the build.
    backend: Option<String>,
    device: String,
    quick: bool,
    /// Whether a signal ended the checks early.
    interrupted: bool,
    passed: usize,
    pub(super) failed: usize,
    skipped: usize,
    seconds: f64,
    checks: Vec<CheckRow>,
}

impl Report {
    pub(super) fn new(
        arguments: &VerifyGpuArguments,
        checks: Vec<CheckRow>,
        seconds: f64,
        interrupted: bool,
    ) -> Self {
        let count = |verdict| checks.iter().filter(|row| row.verdict == verdict).count();
        Self {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION"),
            backend: GPU_BACKEND.map(str::to_lowercase),
            device: arguments.device().to_string(),
            quick: arguments.quick,
            interrupted,
            passed: count(CheckVerdict::Pass),
            failed: count(CheckVerdict::Fail),
            skipped: count(CheckVerdict::Skipped),
            seconds,
            checks,
        }
    }

    /// The table, the counts, and where the file is.
    pub(super) fn text(&self, path: &Path) -> String {
        let mut table =
            Table::new([Left("check"), Left("training"), Left("verdict"), Right("limit"), Left("found")]);
        for row in &self.checks {
            let limit = row.limit.map(|limit| if limit == 0.0 { "equal".to_owned() } else { percent(limit) });
            let cells = [
                row.name.to_owned(),
                row.training.clone().unwrap_or_default(),
                row.verdict.text().to_owned(),
                limit.unwrap_or_default(),
                row.finding.clone(),
            ];
            table.marked(cells, [false, false, row.verdict == CheckVerdict::Fail, false, false]);
        }
        let Self { passed, failed, skipped, seconds, .. } = self;
        let time = elapsed(*seconds);
        let counts = format!("{passed} passed, {failed} failed, {skipped} skipped in {time}");
        let ended = if self.interrupted { "; a signal ended the checks early" } else { "" };
        let sent = format!(
            "the results of {} are in {}: please send this file to the project, on its issue page",
            plural(self.checks.len(), "check"),
            printable(path.display())
        );
        format!("{table}\n{counts}{ended}\n{sent}\n")
    }
}

#[cfg(test)]
mod tests {
    use oomph_config::DeviceName;
    use serde_json::Value;

    use super::*;
    use crate::commands::verify_gpu::{
        check::GpuCheck,
        figures::{CheckError, Figures, SkipReason},
        trainings::WIDE_LSTM,
    };

    #[test]
    fn the_table_has_a_row_for_each_check() {
        console::set_colors_enabled(false);
        let figures = |passes, limit, finding: &str| {
            Ok(Figures { passes, limit, values: Value::Null, finding: finding.to_owned() })
        };
        let device = DeviceName::Cuda(0);
        let failed = figures(false, Some(0.03), "in use 2.00 MiB, planned 1.00 MiB (−50.0 %)");
        let rows = vec![
            CheckRow::new(&GpuCheck::Memory(&WIDE_LSTM), device, failed, 1.0),
            CheckRow::new(&GpuCheck::Card, device, Err(SkipReason::Unlisted.into()), 0.0),
            CheckRow::new(&GpuCheck::Speed(&WIDE_LSTM), device, Err(CheckError::NoFigures), 0.0),
            CheckRow::new(&GpuCheck::FirstStep(&WIDE_LSTM), device, figures(true, None, "3.00 s"), 4.0),
        ];
        let report = Report {
            format: FORMAT,
            version: "1",
            backend: None,
            device: device.to_string(),
            quick: false,
            interrupted: false,
            passed: 1,
            failed: 2,
            skipped: 1,
            seconds: 5.0,
            checks: rows,
        };
        insta::assert_snapshot!(report.text(Path::new("x.json")), @r"
        check       training                   verdict  limit  found
        memory      LSTM, 128 → 256, 64 steps  fail     3.0 %  in use 2.00 MiB, planned 1.00 MiB (−50.0 %)
        card                                   skipped         the driver does not list this process, as in a container with its own process ids
        speed       LSTM, 128 → 256, 64 steps  fail            its process ended without the figures
        first step  LSTM, 128 → 256, 64 steps  pass            3.00 s

        1 passed, 2 failed, 1 skipped in 5.0 s
        the results of 4 checks are in x.json: please send this file to the project, on its issue page
        ");
    }
}

//! A comparison as text, JSON and a page.

use std::path::Path;

use oomph_config::Config;
use oomph_core::{Bytes, printable};
use oomph_timeline::export::{Comparison, ComparisonRow};
use serde_json::{Value, json};

use super::{
    arguments::CompareArguments,
    axes::{AXES, label, text},
    row::Row,
};
use crate::{
    numbers::{decimal, grouped, rate, step_time},
    probe::{Measured, Planned},
    table::{
        Column::{Left, Right},
        Table,
    },
    verdict::Verdict,
};

/// All rows and their common settings.
pub(super) struct Report {
    pub(super) rows: Vec<Row>,
    /// The names of the rows.
    labels: Vec<String>,
    /// Whether each axis varies.
    varied: [bool; AXES.len()],
    model: String,
    parameters: Option<usize>,
    /// The values of the other axes.
    fixed: Vec<String>,
    /// Steps of each row; `None` if nothing was trained.
    steps: Option<u32>,
    device: String,
    limit_bytes: Option<Bytes>,
}

impl Report {
    pub(super) fn new(arguments: &CompareArguments, base: &Config, rows: Vec<Row>) -> Self {
        let varied = AXES.each_ref().map(|axis| axis.is_varied(arguments));
        let planned = rows.iter().find_map(|row| row.planned.as_ref());
        let named = || base.model.string("name", "").unwrap_or_default();
        let fixed = rows.first().map(|row| {
            // Defaults are not shown, nor is a micro-batch of the whole batch.
            let is_shown = |key| match key {
                "micro_batch" => row.value("micro_batch") != row.value("batch"),
                "precision" => row.value("precision") != Some(&"fp32".into()),
                "recompute" => row.value("recompute") != Some(&"none".into()),
                "lean" => row.value("lean") != Some(&"true".into()),
                "gradients" => row.value("gradients") != Some(&"keep".into()),
                "loss_chunk" => row.value("loss_chunk") != Some(&"none".into()),
                "offload" => row.value("offload") != Some(&"none".into()),
                "state" => row.value("state") != Some(&"fp32".into()),
                "strategy" => row.value("strategy") != Some(&Value::Null),
                "shard" => row.value("shard") != Some(&"none".into()),
                _ => true,
            };
            let fixed = AXES.iter().zip(&row.values).zip(varied);
            let fixed = fixed.filter(|((axis, _), varied)| !varied && is_shown(axis.key));
            fixed.map(|((axis, value), _)| axis.label(value)).collect()
        });
        Self {
            labels: rows.iter().map(|row| label(arguments, &row.values)).collect(),
            varied,
            model: planned.map_or_else(named, |planned| planned.model.clone()),
            parameters: planned.map(|planned| planned.parameters),
            fixed: fixed.unwrap_or_default(),
            steps: (!arguments.plan_only).then_some(arguments.steps),
            device: base.device.devices.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
            limit_bytes: planned.and_then(|planned| planned.limit_bytes),
            rows,
        }
    }

    /// The comparison as JSON.
    pub(super) fn json(&self) -> Value {
        json!({
            "model": self.model,
            "parameters": self.parameters,
            "device": self.device,
            "limit_bytes": self.limit_bytes,
            "steps": self.steps,
            "rows": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
        })
    }

    /// The table with its head.
    pub(super) fn text(&self, page: Option<&Path>) -> String {
        let page = page.map(|page| format!("\npage written to {}\n", printable(page.display())));
        format!("{}\n\n{}{}", self.head(), self.table(), page.unwrap_or_default())
    }

    /// `resnet18 · 175,258 parameters · batch 32 · 20 steps each · on cpu with 14.6 GiB`.
    fn head(&self) -> String {
        let mut parts = vec![self.model.clone()];
        parts.extend(self.parameters.map(|count| format!("{} parameters", grouped(count))));
        parts.extend(self.fixed.iter().cloned());
        parts.push(match self.steps {
            Some(steps) => format!("{} steps each", grouped(steps as usize)),
            None => "planned only".into(),
        });
        parts.push(match self.limit_bytes {
            Some(limit) if self.device.contains(',') => format!("on {} with {limit} each", self.device),
            Some(limit) => format!("on {} with {limit}", self.device),
            None => format!("on {}", self.device),
        });
        parts.join(" · ")
    }

    fn table(&self) -> Table<COLUMNS> {
        let heading = |column: usize| match column.checked_sub(AXES.len()) {
            None => AXES[column].heading,
            Some(figure) => FIGURES[figure].heading,
        };
        let mut table = Table::new(std::array::from_fn(|column| match column {
            0 | LAST => Left(heading(column)),
            _ => Right(heading(column)),
        }));
        let cells: Vec<[String; COLUMNS]> = self.rows.iter().map(|row| self.cells(row)).collect();
        let marks: Vec<[bool; COLUMNS]> = self.marks();
        for (row, marks) in cells.iter().zip(marks) {
            let is_used = |column: usize| cells.iter().any(|cells| !cells[column].is_empty());
            let cell = |column: usize| match row[column].as_str() {
                "" if is_used(column) => "–".to_owned(),
                text => text.to_owned(),
            };
            table.marked(std::array::from_fn(cell), marks);
        }
        table.without_empty_columns()
    }

    fn cells(&self, row: &Row) -> [String; COLUMNS] {
        std::array::from_fn(|column| match column.checked_sub(AXES.len()) {
            None if self.varied[column] => text(&row.values[column]),
            None => String::new(),
            Some(figure) => (FIGURES[figure].text)(row, self),
        })
    }

    /// Marks the best value of each column with different values.
    fn marks(&self) -> Vec<[bool; COLUMNS]> {
        let mut marks = vec![[false; COLUMNS]; self.rows.len()];
        for (figure, column) in FIGURES.iter().zip(AXES.len()..) {
            let costs: Vec<Option<f64>> = self.rows.iter().map(|row| (figure.cost)(row)).collect();
            let known = || costs.iter().flatten().copied();
            let (least, most) =
                (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
            if least < most {
                for (marks, cost) in marks.iter_mut().zip(&costs) {
                    marks[column] = *cost == Some(least);
                }
            }
        }
        marks
    }

    /// The planned peak as a multiple of that of the first row.
    fn against_first(&self, row: &Row) -> String {
        let first = self.rows.first().and_then(planned_peak).filter(|first| *first > 0.0);
        let both = first.zip(planned_peak(row)).filter(|_| self.rows.len() > 1);
        both.map(|(first, own)| times(own / first)).unwrap_or_default()
    }
}

/// A column after those of the axes.
struct Figure {
    heading: &'static str,
    /// Empty if unknown.
    text: fn(&Row, &Report) -> String,
    /// The value that is best if smallest.
    cost: fn(&Row) -> Option<f64>,
}

const COLUMNS: usize = AXES.len() + FIGURES.len();
const LAST: usize = COLUMNS - 1;

const FIGURES: [Figure; 11] = [
    Figure { heading: "lr", text: |row, _| row.lr.map(short).unwrap_or_default(), cost: |_| None },
    Figure {
        heading: "planned peak",
        text: |row, _| row.planned.as_ref().map(|it| it.peak_bytes().to_string()).unwrap_or_default(),
        cost: planned_peak,
    },
    Figure { heading: "×", text: |row, report| report.against_first(row), cost: |_| None },
    Figure {
        heading: "peak in use",
        text: |row, _| peak_in_use(row).map(|bytes| bytes.to_string()).unwrap_or_default(),
        cost: |row| number(peak_in_use(row)),
    },
    Figure {
        heading: "error",
        text: |row, _| row.error_of_plan().map(signed_percent).unwrap_or_default(),
        cost: |_| None,
    },
    Figure {
        heading: "state/param",
        text: |row, _| {
            let share = row.state_bytes_per_parameter();
            share.map(|it| format!("{} B", short((it * 100.0).round() / 100.0))).unwrap_or_default()
        },
        cost: Row::state_bytes_per_parameter,
    },
    Figure {
        heading: "planned step",
        text: |row, _| planned_step(row).map(step_time).unwrap_or_default(),
        cost: planned_step,
    },
    Figure { heading: "step", text: |row, _| step(row).map(step_time).unwrap_or_default(), cost: step },
    Figure {
        heading: "samples/s",
        text: |row, _| row.samples_per_second().map(rate).unwrap_or_default(),
        cost: |row| row.samples_per_second().map(|rate| -rate),
    },
    Figure {
        heading: "loss",
        text: |row, _| row.measured.as_ref().map(losses).unwrap_or_default(),
        cost: |row| row.measured.as_ref()?.loss_last(),
    },
    Figure {
        heading: "",
        // Measurements that all fit need no verdict. A plan always has one.
        text: |row, report| {
            let is_shown =
                report.steps.is_none() || report.rows.iter().any(|row| row.verdict != Some(Verdict::Fits));
            let verdict = row.verdict.filter(|_| is_shown);
            verdict.map(Verdict::text).unwrap_or_default().to_owned()
        },
        cost: |_| None,
    },
];

fn planned_peak(row: &Row) -> Option<f64> {
    number(row.planned.as_ref().map(Planned::peak_bytes))
}

fn peak_in_use(row: &Row) -> Option<Bytes> {
    row.measured.as_ref()?.peak_in_use_bytes
}

fn step(row: &Row) -> Option<f64> {
    row.measured.as_ref().map(|measured| measured.step_seconds)
}

fn planned_step(row: &Row) -> Option<f64> {
    row.planned.as_ref()?.step_seconds
}

fn number(bytes: Option<Bytes>) -> Option<f64> {
    bytes.map(|bytes| bytes.get() as f64)
}

/// `2.3979 → 1.1034`.
fn losses(measured: &Measured) -> String {
    let text = |loss: Option<f64>| loss.map_or_else(|| "not finite".into(), decimal);
    format!("{} → {}", text(measured.loss_first()), text(measured.loss_last()))
}

/// A number without trailing zeros: `0.1`, `0.001`, `4`, `3e-5`.
fn short(value: f64) -> String {
    let rounded = (value * 1e6).round() / 1e6;
    if value == 0.0 || (1e-3..1e6).contains(&rounded) { rounded.to_string() } else { format!("{value:e}") }
}

/// `×1.32`, `×10,941`.
fn times(factor: f64) -> String {
    if factor < 99.995 { format!("×{factor:.2}") } else { format!("×{}", grouped(factor.round() as usize)) }
}

fn signed_percent(share: f64) -> String {
    let tenths = (share * 1000.0).round();
    let sign = match tenths {
        0.0 => "",
        less if less < 0.0 => "−",
        _ => "+",
    };
    format!("{sign}{:.1} %", tenths.abs() / 10.0)
}

/// The comparison as a page of bar charts.
pub(super) fn page(report: &Report) -> Comparison {
    let rows = report.rows.iter().zip(&report.labels).map(|(row, label)| ComparisonRow {
        name: match row.verdict {
            Some(verdict) if verdict != Verdict::Fits => format!("{label} ({})", verdict.text()),
            _ => label.clone(),
        },
        planned: row.planned.as_ref().map(Planned::peak),
        measured_peak_bytes: peak_in_use(row),
        state_bytes_per_parameter: row.state_bytes_per_parameter(),
        step_seconds: step(row),
        // A loss that is not finite is shown too.
        loss: row.measured.as_ref().map(|measured| measured.loss_last().unwrap_or(f64::NAN)),
    });
    Comparison { title: report.head(), rows: rows.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        assert_eq!([0.1, 0.001, 8.0, 0.0, 3e-5, 1e30].map(short), ["0.1", "0.001", "8", "0", "3e-5", "1e30"]);
        assert_eq!([1.0, 99.0, 10_940.92].map(times), ["×1.00", "×99.00", "×10,941"]);
        assert_eq!([0.012, -0.0004].map(signed_percent), ["+1.2 %", "0.0 %"]);
    }
}

use std::io::{self, BufWriter, Write};

use oomph_core::Bytes;

use super::{
    document::{STYLE, Text, fill, unknown_part},
    header::error_percent,
};
use crate::{category::Category, split::Split};

const TEMPLATE: &str = include_str!("assets/chart.html");

/// The content of [`chart`]: plans and runs to compare.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// The title: `optimizers · resnet18 · batch 32`.
    pub title: String,
    /// The rows, in the order of the page.
    pub rows: Vec<ComparisonRow>,
}

/// One plan or run. The page leaves out figures that are `None` in all rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComparisonRow {
    /// Its name: `adamw`.
    pub name: String,
    /// The planned peak, by category.
    pub planned: Option<Split>,
    /// The peak in use of a run.
    pub measured_peak_bytes: Option<Bytes>,
    /// Bytes of optimizer state per parameter of the model.
    pub state_bytes_per_parameter: Option<f64>,
    /// Seconds per step.
    pub step_seconds: Option<f64>,
    /// The final loss.
    pub loss: Option<f64>,
}

/// Writes an HTML page of bars, with the same figures as a table. It needs neither network nor other files.
///
/// ```
/// use oomph_timeline::export::{Comparison, ComparisonRow, chart};
///
/// let row = ComparisonRow { name: "sgd".into(), step_seconds: Some(0.41), ..ComparisonRow::default() };
/// let mut page = Vec::new();
/// chart(&Comparison { title: "optimizers".into(), rows: vec![row] }, &mut page)?;
/// assert!(String::from_utf8_lossy(&page).contains("410 ms"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Errors of `out`.
pub fn chart(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    fill(TEMPLATE, &mut out, |name, out| match name {
        "title" => write!(out, "{}", Text(&comparison.title)),
        "style" => out.write_all(STYLE.as_bytes()),
        "peaks" => peaks(&comparison.rows, out),
        "measures" => MEASURES.iter().try_for_each(|measure| measure.bars(&comparison.rows, out)),
        "table" => table(&comparison.rows, out),
        other => Err(unknown_part(other)),
    })?;
    out.flush()
}

/// Bars are drawn in a box of this width and stretched to the width of the page.
const BAR_WIDTH: f64 = 1000.0;

fn peaks(rows: &[ComparisonRow], out: &mut dyn Write) -> io::Result<()> {
    let planned = |row: &ComparisonRow| row.planned.map(|split| split.total());
    let largest = rows.iter().flat_map(|row| planned(row).into_iter().chain(row.measured_peak_bytes)).max();
    let Some(largest) = largest else { return Ok(()) };
    let has_measured = rows.iter().any(|row| row.measured_peak_bytes.is_some());
    writeln!(out, "<section class=\"card\"><h2>peak memory</h2>")?;
    legend(rows, has_measured, out)?;
    writeln!(out, "<div class=\"bars\">")?;
    for row in rows {
        writeln!(out, "<div class=\"name\">{}</div>", Text(&row.name))?;
        peak_bar(row, largest, out)?;
        let text = match (planned(row), row.measured_peak_bytes) {
            (Some(planned), Some(measured)) => match error_percent(planned, measured) {
                Some(error) => format!("{planned} planned, {measured} in use ({error})"),
                None => format!("{planned} planned, {measured} in use"),
            },
            (Some(planned), None) => format!("{planned} planned"),
            (None, Some(measured)) => format!("{measured} in use"),
            (None, None) => "–".into(),
        };
        writeln!(out, "<div class=\"value\">{text}</div>")?;
    }
    writeln!(out, "</div></section>")
}

fn legend(rows: &[ComparisonRow], has_measured: bool, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<ul class=\"keys\">")?;
    for (index, category) in Category::ALL.into_iter().enumerate() {
        if rows.iter().any(|row| row.planned.is_some_and(|split| split[category] > 0)) {
            writeln!(out, "<li><i class=\"swatch c{index}\"></i>{category}</li>")?;
        }
    }
    if has_measured {
        writeln!(out, "<li><i class=\"swatch measured\"></i>peak in use</li>")?;
    }
    writeln!(out, "</ul>")
}

fn peak_bar(row: &ComparisonRow, largest: Bytes, out: &mut dyn Write) -> io::Result<()> {
    let width = |bytes: Bytes| bytes.get() as f64 / largest.get().max(1) as f64 * BAR_WIDTH;
    write!(out, "<svg viewBox=\"0 0 {BAR_WIDTH} 30\" preserveAspectRatio=\"none\" aria-hidden=\"true\">")?;
    let mut left = 0.0;
    for (index, (category, bytes)) in row.planned.iter().flat_map(Split::iter).enumerate() {
        let wide = width(bytes);
        if wide > 0.0 {
            write!(out, "<rect class=\"c{index}\" x=\"{left:.2}\" width=\"{wide:.2}\" height=\"20\">")?;
            write!(out, "<title>{category}: {bytes}</title></rect>")?;
            left += wide;
        }
    }
    if let Some(measured) = row.measured_peak_bytes {
        let wide = width(measured);
        write!(out, "<rect class=\"measured\" y=\"23\" width=\"{wide:.2}\" height=\"6\">")?;
        write!(out, "<title>peak in use: {measured}</title></rect>")?;
    }
    writeln!(out, "</svg>")
}

/// An optional figure of a row.
struct Measure {
    name: &'static str,
    value: fn(&ComparisonRow) -> Option<f64>,
    text: fn(f64) -> String,
}

const MEASURES: [Measure; 3] = [
    Measure { name: "time of a step", value: |row| row.step_seconds, text: seconds },
    Measure { name: "loss at the end", value: |row| row.loss, text: |loss| format!("{loss:.4}") },
    Measure {
        name: "optimizer state per parameter",
        value: |row| row.state_bytes_per_parameter,
        text: |bytes| format!("{} B", (bytes * 100.0).round() / 100.0),
    },
];

impl Measure {
    /// The value, if it can be drawn.
    fn of(&self, row: &ComparisonRow) -> Option<f64> {
        (self.value)(row).filter(|value| value.is_finite())
    }

    fn text_of(&self, row: &ComparisonRow) -> String {
        match (self.value)(row) {
            Some(value) if value.is_finite() => (self.text)(value),
            Some(_) => "not finite".into(),
            None => "–".into(),
        }
    }

    fn bars(&self, rows: &[ComparisonRow], out: &mut dyn Write) -> io::Result<()> {
        if rows.iter().all(|row| (self.value)(row).is_none()) {
            return Ok(());
        }
        let largest = rows.iter().filter_map(|row| self.of(row)).fold(f64::MIN_POSITIVE, f64::max);
        writeln!(out, "<section class=\"card\"><h2>{}</h2><div class=\"bars thin\">", self.name)?;
        for row in rows {
            let wide = (self.of(row).unwrap_or(0.0) / largest * BAR_WIDTH).max(0.0);
            writeln!(out, "<div class=\"name\">{}</div>", Text(&row.name))?;
            write!(
                out,
                "<svg viewBox=\"0 0 {BAR_WIDTH} 14\" preserveAspectRatio=\"none\" aria-hidden=\"true\">"
            )?;
            writeln!(out, "<rect class=\"plain\" width=\"{wide:.2}\" height=\"14\"/></svg>")?;
            writeln!(out, "<div class=\"value\">{}</div>", self.text_of(row))?;
        }
        writeln!(out, "</div></section>")
    }
}

/// `0.41` as `410 ms`.
fn seconds(seconds: f64) -> String {
    match seconds {
        long if long >= 10.0 => format!("{long:.1} s"),
        long if long >= 1.0 => format!("{long:.2} s"),
        short if short >= 1e-3 => format!("{:.0} ms", short * 1e3),
        short => format!("{:.0} µs", short * 1e6),
    }
}

fn table(rows: &[ComparisonRow], out: &mut dyn Write) -> io::Result<()> {
    let has =
        |category: &Category| rows.iter().any(|row| row.planned.is_some_and(|split| split[*category] > 0));
    let categories: Vec<_> = Category::ALL.into_iter().filter(has).collect();
    let is_measured = rows.iter().any(|row| row.measured_peak_bytes.is_some());
    let is_planned = rows.iter().any(|row| row.planned.is_some());
    let is_known = |measure: &&Measure| rows.iter().any(|row| (measure.value)(row).is_some());
    let measures: Vec<_> = MEASURES.iter().filter(is_known).collect();

    let mut heads = vec!["".to_owned()];
    heads.extend(is_planned.then(|| "planned peak".to_owned()));
    heads.extend(is_measured.then(|| "peak in use".to_owned()));
    heads.extend(categories.iter().map(ToString::to_string));
    heads.extend(measures.iter().map(|measure| measure.name.to_owned()));
    write!(out, "<thead><tr>")?;
    heads.iter().try_for_each(|head| write!(out, "<th scope=\"col\">{head}</th>"))?;
    writeln!(out, "</tr></thead><tbody>")?;
    let text = |bytes: Option<Bytes>| bytes.map_or_else(|| "–".into(), |bytes| bytes.to_string());
    for row in rows {
        write!(out, "<tr><th scope=\"row\">{}</th>", Text(&row.name))?;
        let mut cells = Vec::new();
        cells.extend(is_planned.then(|| text(row.planned.map(|split| split.total()))));
        cells.extend(is_measured.then(|| text(row.measured_peak_bytes)));
        cells.extend(categories.iter().map(|&category| text(row.planned.map(|split| split.of(category)))));
        cells.extend(measures.iter().map(|measure| measure.text_of(row)));
        cells.iter().try_for_each(|cell| write!(out, "<td>{cell}</td>"))?;
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(rows: Vec<ComparisonRow>) -> String {
        let mut out = Vec::new();
        chart(&Comparison { title: "</title><b>optimizers".into(), rows }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn row(name: &str) -> ComparisonRow {
        let mut planned = Split::default();
        planned += (Category::Parameters, 100 << 20);
        planned += (Category::Activations, 300 << 20);
        ComparisonRow {
            name: name.into(),
            planned: Some(planned),
            measured_peak_bytes: Some(Bytes::mib(410)),
            state_bytes_per_parameter: Some(4.0),
            step_seconds: Some(0.41),
            loss: Some(0.1234),
        }
    }

    #[test]
    fn a_page_has_bars_and_the_same_figures_in_a_table() {
        let text = page(vec![row("sgd"), row("adam")]);
        assert_eq!(text.matches("class=\"c3\"").count(), 2, "a bar of activations each");
        assert!(text.contains("400 MiB planned, 410 MiB in use (−2.4 %)"), "{text}");
        for figure in ["410 ms", "0.1234", "4 B", "<td>300 MiB</td>"] {
            assert!(text.contains(figure), "{figure}");
        }
    }

    #[test]
    fn what_no_row_has_is_not_there() {
        let text =
            page(vec![ComparisonRow { name: "x".into(), loss: Some(1.0), ..ComparisonRow::default() }]);
        let body = text.split("</style>").nth(1).unwrap();
        assert!(!body.contains("peak memory") && !body.contains("time of a step") && body.contains("loss"));
    }

    #[test]
    fn what_is_not_finite_or_hostile_does_no_harm() {
        let hostile = ComparisonRow {
            name: "<script>alert(1)</script>".into(),
            loss: Some(f64::NAN),
            step_seconds: Some(f64::INFINITY),
            state_bytes_per_parameter: Some(-1.0),
            ..row("")
        };
        let text = page(vec![hostile, ComparisonRow::default()]);
        assert!(!text.contains("<script") && !text.contains("<b>") && !text.contains("NaN"));
        assert!(text.contains("not finite") && !text.contains("width=\"-"));
    }
}

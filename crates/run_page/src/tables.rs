//! The tables of the page: plain markup, readable without scripts.

use std::io::{self, Write};

use oomph_runs::{Difference, RunEvaluation, RunSummary, differences as differing};
use oomph_timeline::export::{
    document::Text,
    figures::{counted, duration, number},
};

use crate::{
    head::{name, swatch},
    write::RunsPage,
};

/// Runs whose values of a key have a column each. More are named beside the value.
const MOST_COLUMNS: usize = 8;

/// A row for each run.
pub(crate) fn runs(page: &RunsPage<'_>, out: &mut dyn Write) -> io::Result<()> {
    for (index, run) in page.runs.iter().enumerate() {
        let steps = run.steps.map_or_else(|| run.step.to_string(), |all| format!("{} / {all}", run.step));
        let missing = || "–".to_owned();
        let cells = [
            run.best.map_or_else(missing, |best| evaluation(&best)),
            run.last.map_or_else(
                || run.loss.map_or_else(missing, |loss| format!("{} (train)", number(loss))),
                |last| evaluation(&last),
            ),
            run.peak_in_use_bytes.map_or_else(missing, |bytes| bytes.to_string()),
            run.samples_per_second.map_or_else(missing, number),
            duration(run.seconds),
        ];
        let [model, source, status] =
            [&run.model, &run.source, run.status.name()].map(|text: &str| Text(text));
        write!(out, "<tr><th scope=\"row\">{} {}</th>", swatch(index), Text(&name(run)))?;
        write!(out, "<td>{model}</td><td>{source}</td><td>{status}</td><td class=\"number\">{steps}</td>")?;
        cells.iter().try_for_each(|cell| write!(out, "<td class=\"number\">{}</td>", Text(cell)))?;
        writeln!(out, "</tr>")?;
        if let Some(error) = &run.error {
            writeln!(out, "<tr><td class=\"error\" colspan=\"10\">{}</td></tr>", Text(error))?;
        }
    }
    Ok(())
}

fn evaluation(evaluation: &RunEvaluation) -> String {
    let accuracy = evaluation.eval_accuracy.map(|accuracy| format!(", {:.1} %", accuracy * 100.0));
    let perplexity = evaluation.eval_perplexity.map(|it| format!(", perplexity {}", number(it)));
    let bits = evaluation.eval_bits_per_byte.map(|it| format!(", {} bits per byte", number(it)));
    [Some(number(evaluation.eval_loss)), perplexity, bits, accuracy].map(Option::unwrap_or_default).concat()
}

/// The keys whose values differ, in a section of their own. Nothing for a single run.
pub(crate) fn differences(page: &RunsPage<'_>, out: &mut dyn Write) -> io::Result<()> {
    if page.runs.len() < 2 {
        return Ok(());
    }
    writeln!(out, "<section class=\"card\" aria-label=\"differing keys\">")?;
    let found = differing(page.runs);
    let keys = counted(found.len(), "key differs", "keys differ");
    writeln!(out, "<div class=\"caption\"><h2>configurations <small>{keys}</small></h2></div>")?;
    if !found.is_empty() {
        writeln!(out, "<div class=\"scroll\"><table>")?;
        if page.runs.len() <= MOST_COLUMNS { by_run(page.runs, &found, out) } else { by_value(&found, out) }?;
        writeln!(out, "</table></div>")?;
    }
    writeln!(out, "</section>")
}

/// A column for each run.
fn by_run(runs: &[RunSummary], found: &[Difference], out: &mut dyn Write) -> io::Result<()> {
    write!(out, "<thead><tr><th scope=\"col\">key</th>")?;
    for (index, run) in runs.iter().enumerate() {
        write!(out, "<th scope=\"col\">{} {}</th>", swatch(index), Text(&name(run)))?;
    }
    writeln!(out, "</tr></thead><tbody>")?;
    for Difference { key, values } in found {
        write!(out, "<tr><th scope=\"row\">{}</th>", Text(key))?;
        for run in runs {
            let value = values.iter().find(|entry| entry.runs.contains(&run.run_dir));
            let class =
                if value.is_some_and(|entry| entry.value.is_none()) { " class=\"unset\"" } else { "" };
            let shown = value.map_or_else(String::new, |entry| entry.shown(key));
            write!(out, "<td{class}>{}</td>", Text(&shown))?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody>")
}

/// A row for each value.
fn by_value(found: &[Difference], out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<thead><tr><th scope=\"col\">key</th><th scope=\"col\">value</th><th scope=\"col\">runs</th></tr></thead><tbody>"
    )?;
    for Difference { key: name, values } in found {
        for (index, entry) in values.iter().enumerate() {
            let key = if index == 0 { name.as_str() } else { "" };
            let names: Vec<_> = entry.runs.iter().map(|run| run.display().to_string()).collect();
            let (value, names) = (entry.shown(name), names.join(", "));
            let [key, value, names] = [key, &value, &names].map(Text);
            writeln!(out, "<tr><th scope=\"row\">{key}</th><td>{value}</td><td>{names}</td></tr>")?;
        }
    }
    writeln!(out, "</tbody>")
}

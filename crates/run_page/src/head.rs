//! The head of the page and the names of the runs: plain markup, readable without scripts.

use std::io::{self, Write};

use oomph_runs::{RunStatus, RunSummary};
use oomph_timeline::export::{
    document::Text,
    figures::{counted, duration, number},
};

use crate::write::RunsPage;

/// Colours of runs. Later runs begin again with the first.
pub(crate) const COLOURS: usize = 10;

/// Title and figures.
pub(crate) fn head(page: &RunsPage<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<div class=\"headline\"><h1>{}</h1>", Text(&page.title()))?;
    let made = if page.made.is_empty() { String::new() } else { format!(" · made {} UTC", page.made) };
    writeln!(out, "<p><span class=\"tag\">oomph</span> curves and results{}</p></div>", Text(&made))?;
    writeln!(out, "<dl>")?;
    let mut figure = |name: &str, value: &str, aside: &str| {
        let (name, value, aside) = (Text(name), Text(value), Text(aside));
        writeln!(out, "<div><dt>{name}</dt><dd>{value} <small>{aside}</small></dd></div>")
    };
    let evaluated = page.runs.iter().filter_map(|run| Some((run, run.best?.eval_loss)));
    if let Some((run, loss)) = evaluated.min_by(|one, other| one.1.total_cmp(&other.1)) {
        let name = if page.runs.len() > 1 { run.run_dir.display().to_string() } else { String::new() };
        figure("best eval loss", &number(loss), &name)?;
    }
    if page.runs.len() > 1 {
        let finished = page.runs.iter().filter(|run| run.status == RunStatus::Finished).count();
        figure("runs", &page.runs.len().to_string(), &format!("{finished} finished"))?;
    }
    let steps: usize = page.runs.iter().map(|run| run.step).sum();
    let seconds: f64 = page.runs.iter().map(|run| run.seconds).filter(|it| it.is_finite()).sum();
    figure("time", &duration(seconds), &counted(steps, "step", "steps"))?;
    writeln!(out, "</dl>")
}

/// A button for each run, which shows and hides its curves.
pub(crate) fn chips(page: &RunsPage<'_>, out: &mut dyn Write) -> io::Result<()> {
    for (index, run) in page.runs.iter().enumerate() {
        write!(
            out,
            "<button type=\"button\" class=\"chip\" aria-pressed=\"true\" data-run=\"{index}\">{} {}</button>",
            swatch(index),
            Text(&name(run))
        )?;
    }
    Ok(())
}

/// The colour of a run.
pub(crate) fn swatch(index: usize) -> String {
    format!("<i class=\"swatch r{}\"></i>", index % COLOURS)
}

pub(crate) fn name(run: &RunSummary) -> String {
    run.run_dir.display().to_string()
}

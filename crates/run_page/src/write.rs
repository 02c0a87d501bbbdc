use std::io::{self, BufWriter, Write};

use oomph_runs::RunSummary;
use oomph_timeline::export::{
    document::{CURVE_SCRIPTS, CURVE_STYLE, FORMAT_SCRIPT, STYLE, Text, fill, script_json, unknown_part},
    figures::counted,
};

use crate::{data::Data, head, tables};

const TEMPLATE: &str = include_str!("assets/page.html");
/// Comes after the style sheets of all pages with curves.
const RUN_STYLE: &str = include_str!("assets/runs.css");
/// In this order, after those of all pages: each script uses those before it.
const SCRIPTS: [&str; 4] = [
    include_str!("assets/runs.js"),
    include_str!("assets/curve.js"),
    include_str!("assets/chart.js"),
    include_str!("assets/page.js"),
];

/// The content of the page.
#[derive(Clone, Debug)]
pub struct RunsPage<'a> {
    /// The runs, in the order in which the page shows them.
    pub runs: &'a [RunSummary],
    /// When the page was made, as text.
    pub made: String,
}

impl RunsPage<'_> {
    /// The name of the only run, or the number of runs.
    pub(crate) fn title(&self) -> String {
        match self.runs {
            [run] => run.run_dir.display().to_string(),
            runs => counted(runs.len(), "run", "runs"),
        }
    }
}

/// Writes one HTML file that needs neither network nor other files.
///
/// Texts of the runs are escaped: a directory may be called `</script>`. The content policy forbids the page to load
/// anything. The same runs give the same bytes.
///
/// # Errors
/// Errors of `out`.
pub fn write(page: &RunsPage<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    fill(TEMPLATE, &mut out, |name, out| match name {
        "title" => write!(out, "{}", Text(&page.title())),
        "style" => [STYLE, CURVE_STYLE, RUN_STYLE].iter().try_for_each(|it| out.write_all(it.as_bytes())),
        "head" => head::head(page, out),
        "chips" => head::chips(page, out),
        "runs" => tables::runs(page, out),
        "differences" => tables::differences(page, out),
        "data" => script_json(&Data::new(page.runs), out),
        "script" => {
            let scripts = [FORMAT_SCRIPT].into_iter().chain(CURVE_SCRIPTS).chain(SCRIPTS);
            scripts.into_iter().try_for_each(|script| out.write_all(script.as_bytes()))
        }
        other => Err(unknown_part(other)),
    })?;
    out.flush()
}

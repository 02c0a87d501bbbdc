use std::io::{self, BufWriter, Write};

use oomph_timeline::export::document::{
    CURVE_SCRIPTS, CURVE_STYLE, FORMAT_SCRIPT, STYLE, Text, fill, script_json, unknown_part,
};

use crate::{data::Data, head, importance, lengths, study::StudyPage};

const TEMPLATE: &str = include_str!("assets/page.html");
/// Comes after the style sheets of all pages with curves.
const TUNE_STYLE: &str = include_str!("assets/tune.css");
/// In this order, after those of all pages: each script uses those before it.
const SCRIPTS: [&str; 9] = [
    include_str!("assets/figures.js"),
    include_str!("assets/trials.js"),
    include_str!("assets/chart.js"),
    include_str!("assets/progress.js"),
    include_str!("assets/curves.js"),
    include_str!("assets/memory.js"),
    include_str!("assets/parallel.js"),
    include_str!("assets/table.js"),
    include_str!("assets/page.js"),
];

/// Writes one HTML file that needs neither network nor other files.
///
/// It stays fluent with 2,000 trials. Texts of the study are escaped: a parameter may be called `</script>`. The content
/// policy forbids the page to load anything. The importance of parameters is computed here, with fixed seeds: the same
/// content gives the same bytes.
///
/// # Errors
/// Errors of `out`.
pub fn write(page: &StudyPage, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    fill(TEMPLATE, &mut out, |name, out| match name {
        "title" => write!(out, "{}", Text(&page.name)),
        "metric" => write!(out, "{}", Text(&page.metric)),
        "unit" => write!(out, "{}", Text(&page.unit)),
        "better" => out.write_all(better(page).as_bytes()),
        "style" => {
            [STYLE, CURVE_STYLE, TUNE_STYLE].iter().try_for_each(|style| out.write_all(style.as_bytes()))
        }
        "head" => head::head(page, out),
        "statuses" => head::statuses(page, out),
        "importance" => importance::section(page, out),
        "lengths" => lengths::rows(page, out),
        "no-lengths" => out.write_all(if page.levels.is_empty() { b" hidden" } else { b"" }),
        "data" => script_json(&Data::new(page), out),
        "script" => scripts().try_for_each(|script| out.write_all(script.as_bytes())),
        other => Err(unknown_part(other)),
    })?;
    out.flush()
}

fn scripts() -> impl Iterator<Item = &'static str> {
    [FORMAT_SCRIPT].into_iter().chain(CURVE_SCRIPTS).chain(SCRIPTS)
}

fn better(page: &StudyPage) -> &'static str {
    match page.goal {
        crate::Goal::Minimize => "lower is better",
        crate::Goal::Maximize => "higher is better",
    }
}

//! An error as the user reads it: the message, its causes, what to do.

use std::{error::Error, fmt::Write as _};

use console::style;
use oomph_trainer::{OutOfMemoryReport, explain};
use serde::Serialize;

use crate::{
    notices::{self, printable},
    output,
};

/// Tells of an error on standard error, and with `--json` also on standard output, as the last line there.
///
/// Where memory ran out, `found` is what is known of it.
pub(crate) fn report(error: &dyn Error, hint: Option<String>, found: Option<&OutOfMemoryReport>, json: bool) {
    let (message, causes) = (error.to_string(), causes(error));
    let mut text = format!("{} {}", style("error:").for_stderr().red().bold(), printable(&message));
    for cause in causes.iter().map(|cause| printable(cause)) {
        let _ = write!(text, "\n  caused by: {cause}"); // Writing to a string cannot fail.
    }
    // What lies deepest is closest to what went wrong. A report says more than an explanation.
    let known =
        causes.iter().rev().chain([&message]).find_map(|text| explain(text)).filter(|_| found.is_none());
    if let Some(known) = known {
        let _ = write!(text, "\n  likely: {}", known.what);
    }
    if let Some(found) = found {
        let _ = write!(text, "\n\n{}", found.to_string().trim_end());
    }
    let hint = hint.or_else(|| Some(known?.hint.to_owned()));
    if let Some(hint) = &hint {
        let _ = write!(text, "\n\n{} {hint}", style("hint:").for_stderr().cyan().bold());
    }
    notices::write_line(&text);
    if json {
        // Where standard output is gone, standard error has told it.
        let likely = known.map(|it| it.what);
        let _ = output::print_json(&Failed { message, causes, likely, hint, out_of_memory: found });
    }
}

/// What `--json` says.
#[derive(Serialize)]
#[serde(tag = "event", rename = "error")]
struct Failed<'a> {
    message: String,
    causes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    likely: Option<&'static str>,
    hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out_of_memory: Option<&'a OutOfMemoryReport>,
}

/// What lies behind an error, without what only repeats the line before.
fn causes(error: &dyn Error) -> Vec<String> {
    let mut causes = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    causes.dedup();
    causes
}

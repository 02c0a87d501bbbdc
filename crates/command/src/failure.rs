//! Prints an error: message, causes, report and hint.

use std::{error::Error, fmt::Write as _};

use console::style;
use oomph_advice::out_of_memory::OutOfMemoryReport;
use oomph_core::printable;
use oomph_doctor::explain;
use serde::Serialize;

use crate::{error::CliError, output, stream};

/// Prints an error to stderr, and with `json` also as the last line of stdout.
pub fn report(error: &CliError, json: bool) {
    let (message, causes, out_of_memory) = (error.to_string(), causes(error), error.out_of_memory());
    let mut text = heading(&message);
    for cause in causes.iter().map(printable) {
        let _ = write!(text, "\n  caused by: {cause}"); // Writing to a string cannot fail.
    }
    // The deepest cause is the most specific one. A report replaces the explanation.
    let known = causes.iter().rev().chain([&message]).find_map(|text| explain(text));
    let known = known.filter(|_| out_of_memory.is_none());
    if let Some(known) = known {
        let _ = write!(text, "\n  likely: {}", known.what);
    }
    if let Some(report) = out_of_memory {
        let _ = write!(text, "\n\n{}", report.to_string().trim_end());
    }
    let hint = error.hint().or_else(|| Some(known?.hint.to_owned()));
    write_with(text, hint.as_deref());
    if json {
        // If stdout is closed, stderr has the error already.
        let likely = known.map(|it| it.what);
        let _ = output::print_json(&Failed { message, causes, likely, hint, out_of_memory });
    }
}

/// Prints what is wrong with a command line to stderr.
pub fn refuse(message: &str, hint: Option<&str>) {
    write_with(heading(message), hint);
}

fn heading(message: &str) -> String {
    format!("{} {}", style("error:").for_stderr().red().bold(), printable(message))
}

fn write_with(mut text: String, hint: Option<&str>) {
    if let Some(hint) = hint {
        let _ = write!(text, "\n\n{} {}", style("hint:").for_stderr().cyan().bold(), printable(hint));
    }
    stream::write_line(&text);
}

/// An error with its causes, as one line.
pub fn in_words(error: &CliError) -> String {
    [vec![error.to_string()], causes(error)].concat().join(": ")
}

/// The error as JSON.
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

/// The causes of an error, without repetitions of the message above.
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

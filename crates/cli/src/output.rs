//! Standard output: what a command was asked for, and nothing else.

use std::io::{self, Write};

use serde::Serialize;

use crate::error::CliError;

/// Writes a text that ends with a newline.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(CliError::Output)
}

/// Writes a value as one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    let line = serde_json::to_string(value).map_err(|error| CliError::Output(error.into()))?;
    print(&(line + "\n"))
}

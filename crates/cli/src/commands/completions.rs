//! `oomph completions`: a completion script for a shell.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::{error::CliError, exit::Exit, output};

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  oomph completions bash > ~/.local/share/bash-completion/completions/oomph")]
pub(crate) struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

/// Prints the completion script of the whole command line, `all`.
pub(crate) fn run(arguments: &CompletionsArguments, mut all: Command) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    // The file name of this program, which may be a user's own binary.
    let path = std::env::current_exe().ok();
    let name = path.as_ref().and_then(|path| path.file_stem());
    let name = name.map_or_else(|| "oomph".to_owned(), |name| name.to_string_lossy().into_owned());
    clap_complete::generate(arguments.shell, &mut all, name, &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}

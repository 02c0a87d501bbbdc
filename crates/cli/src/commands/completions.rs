use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::{arguments::Arguments, error::CliError, exit::Exit, output};

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  oomph completions bash > ~/.local/share/bash-completion/completions/oomph")]
pub(crate) struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(arguments: &CompletionsArguments) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), program(), &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}

/// The name of this program: that of a user's own binary too.
fn program() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_ref().and_then(|path| path.file_stem());
    name.map_or_else(|| "oomph".to_owned(), |name| name.to_string_lossy().into_owned())
}

use clap::{Parser, Subcommand};

use crate::commands::{
    completions::CompletionsArguments, config::ShowConfigArguments, devices::DevicesArguments,
    evaluate::EvaluateArguments, monitor::MonitorArguments, summary::SummaryArguments, train::TrainArguments,
};

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "oomph",
    version,
    about = "Trains neural networks with the memory always in view",
    after_help = EXAMPLES,
    max_term_width = 100,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  oomph train                                    a small ResNet on the built-in digits
  oomph train --config lstm --set train.epochs=5
  oomph train --resume runs/resnet               go on where a run was stopped
  oomph evaluate --checkpoint runs/resnet
  oomph summary --config synthetic-resnet50 --batch 256";

/// What is asked for.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a model
    Train(TrainArguments),
    /// Measure a checkpoint on the held-out data
    Evaluate(EvaluateArguments),
    /// Show the layers of a model: shapes, parameters, multiply-adds, bytes
    Summary(SummaryArguments),
    /// Show the resolved configuration and where each value comes from
    Config(ShowConfigArguments),
    /// List the devices that a model can run on
    Devices(DevicesArguments),
    /// Watch the memory of GPUs and of this machine, and who holds it
    Monitor(MonitorArguments),
    /// Write a completion script for a shell
    Completions(CompletionsArguments),
}

impl Command {
    /// Whether it answers in JSON.
    pub(crate) fn json(&self) -> bool {
        match self {
            Self::Train(arguments) => arguments.json,
            Self::Evaluate(arguments) => arguments.json,
            Self::Summary(arguments) => arguments.json,
            Self::Config(arguments) => arguments.json,
            Self::Devices(arguments) => arguments.json,
            Self::Monitor(arguments) => arguments.json,
            Self::Completions(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }
}

use clap::{Parser, Subcommand};

use crate::commands::{
    compare::CompareArguments, completions::CompletionsArguments, config::ShowConfigArguments,
    devices::DevicesArguments, doctor::DoctorArguments, evaluate::EvaluateArguments, export::ExportArguments,
    find_batch::FindBatchArguments, monitor::MonitorArguments, plan::PlanArguments,
    predict::PredictArguments, profile::ProfileArguments, runs::RunsArguments, summary::SummaryArguments,
    train::TrainArguments,
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
  oomph predict --run runs/resnet photo.png      its classes, with probabilities
  oomph runs                                     what was trained in runs/
  oomph plan --config synthetic-resnet50 --gpu 24GiB
  oomph find-batch --max 512 --memory-limit 2GiB
  oomph summary --config synthetic-resnet50 --batch 256";

/// What is asked for.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a model
    Train(TrainArguments),
    /// Measure a checkpoint on the held-out data
    Evaluate(EvaluateArguments),
    /// Ask a trained model: the classes of images with their probabilities, or how a text goes on
    Predict(PredictArguments),
    /// List and compare runs: status, best evaluation, peak, speed, what differs in the config
    Runs(RunsArguments),
    /// Write the weights of a checkpoint for PyTorch
    Export(ExportArguments),
    /// Find the largest batch that fits, by plan and trial
    FindBatch(FindBatchArguments),
    /// Predict what training needs in memory, and what fits
    Plan(PlanArguments),
    /// Measure a few steps allocation by allocation, beside the plan
    Profile(ProfileArguments),
    /// Compare optimizers and batches: memory planned and measured, speed, loss
    Compare(CompareArguments),
    /// Show the layers of a model: shapes, parameters, multiply-adds, bytes
    Summary(SummaryArguments),
    /// Show the resolved configuration and where each value comes from
    Config(ShowConfigArguments),
    /// List the devices that a model can run on
    Devices(DevicesArguments),
    /// Check what of this machine, driver and build is missing or wrong
    Doctor(DoctorArguments),
    /// Watch the memory of GPUs and of this machine, and who holds it
    Monitor(MonitorArguments),
    /// Write a completion script for a shell
    Completions(CompletionsArguments),
    /// What this program starts itself with, to measure in a process of its own
    #[command(hide = true)]
    Probe,
}

impl Command {
    /// Whether it answers in JSON.
    pub(crate) fn json(&self) -> bool {
        match self {
            Self::Train(arguments) => arguments.json,
            Self::Evaluate(arguments) => arguments.json,
            Self::Predict(arguments) => arguments.json,
            Self::Runs(arguments) => arguments.json,
            Self::Export(arguments) => arguments.json,
            Self::FindBatch(arguments) => arguments.json,
            Self::Plan(arguments) => arguments.json,
            Self::Profile(arguments) => arguments.json,
            Self::Compare(arguments) => arguments.json,
            Self::Summary(arguments) => arguments.json,
            Self::Config(arguments) => arguments.json,
            Self::Devices(arguments) => arguments.json,
            Self::Doctor(arguments) => arguments.json,
            Self::Monitor(arguments) => arguments.json,
            Self::Completions(_) => false,
            Self::Probe => true,
        }
    }

    /// Whether it is to say nothing but warnings and errors.
    pub(crate) fn quiet(&self) -> bool {
        match self {
            Self::Train(arguments) => arguments.quiet,
            Self::Evaluate(arguments) => arguments.quiet,
            Self::Profile(arguments) => arguments.quiet,
            _ => false,
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

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::{
    calibrate::CalibrateArguments, compare::CompareArguments, completions::CompletionsArguments,
    config::ShowConfigArguments, data::DataArguments, devices::DevicesArguments, doctor::DoctorArguments,
    evaluate::EvaluateArguments, export::ExportArguments, find_batch::FindBatchArguments,
    find_lr::FindLrArguments, init::InitArguments, monitor::MonitorArguments, plan::PlanArguments,
    predict::PredictArguments, profile::ProfileArguments, runs::RunsArguments, summary::SummaryArguments,
    tokenizer::TokenizerArguments, train::TrainArguments, tune::TuneArguments,
    verify_gpu::VerifyGpuArguments,
};

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "oomph",
    version,
    about = "Trains neural networks; plans, measures and explains the memory they use",
    after_help = EXAMPLES,
    max_term_width = 100,
    arg_required_else_help = true
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Arguments {
    /// Reads the words of a command line, the program first.
    ///
    /// # Errors
    /// The help, the version, or what is wrong.
    pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = with_paragraphs(Self::command());
        let matches = command.try_get_matches_from_mut(words)?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
}

/// Joins the lines of each paragraph behind the flags, since clap breaks them again where the terminal ends.
fn with_paragraphs(command: clap::Command) -> clap::Command {
    let text = command.get_after_help().map(ToString::to_string);
    let command = match text {
        Some(text) => command.after_help(joined(&text)),
        None => command,
    };
    command.mut_subcommands(with_paragraphs)
}

/// Indented lines stay as they are.
fn joined(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut is_open = false;
    for line in text.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        if !joined.is_empty() {
            joined.push(if is_open && is_prose { ' ' } else { '\n' });
        }
        joined.push_str(line);
        is_open = is_prose && !line.ends_with(':');
    }
    joined
}

const EXAMPLES: &str = "\
Examples:
  oomph train                           a small ResNet on the built-in digits
  oomph train lstm --epochs 5
  oomph init photos                     a config for your own data
  oomph train --resume runs/resnet      continue a stopped run
  oomph evaluate runs/resnet
  oomph predict runs/resnet photo.png   the most likely classes
  oomph runs                            all runs in runs/
  oomph plan --config synthetic-resnet50 --gpu 24GiB
  oomph find-batch --max 512 --memory-limit 2GiB
  oomph summary --config synthetic-resnet50 --batch 256";

/// A subcommand with its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a model
    Train(TrainArguments),
    /// Compute the loss and accuracy of a checkpoint on the held-out data
    Evaluate(EvaluateArguments),
    /// Classify images or continue a text with a trained model
    Predict(PredictArguments),
    /// List and compare runs: status, best evaluation, peak memory, speed, config differences
    Runs(RunsArguments),
    /// Export the weights of a checkpoint for PyTorch
    Export(ExportArguments),
    /// Find the largest batch that fits, by planning and short probes
    FindBatch(FindBatchArguments),
    /// Find a learning rate, by a short training whose rate grows
    FindLr(FindLrArguments),
    /// Predict the peak memory of training, and which batches fit
    Plan(PlanArguments),
    /// Measure how fast this machine trains, so that plans show times
    Calibrate(CalibrateArguments),
    /// Record every allocation of a few steps, and compare them with the plan
    Profile(ProfileArguments),
    /// Compare optimizers, batches and memory settings: planned and measured memory, speed, loss
    Compare(CompareArguments),
    /// Search good values for keys of a config, by trials whose memory is planned
    Tune(TuneArguments),
    /// Show the layers of a model: shapes, parameters, multiply-adds, output bytes
    Summary(SummaryArguments),
    /// Show the resolved configuration and the origin of each value
    Config(ShowConfigArguments),
    /// Write a commented config that trains on the data of a folder
    Init(InitArguments),
    /// Describe a data source: samples, classes, sizes, unreadable files, duplicates
    Data(DataArguments),
    /// Learn byte-pair encoding from a text, for language models
    Tokenizer(TokenizerArguments),
    /// List the devices that oomph can train on
    Devices(DevicesArguments),
    /// Check this machine, its driver and this build for problems
    Doctor(DoctorArguments),
    /// Check a GPU by small trainings, and write one file for the project
    VerifyGpu(VerifyGpuArguments),
    /// Watch GPU and host memory, and the processes that use it
    Monitor(MonitorArguments),
    /// Print a completion script for a shell
    Completions(CompletionsArguments),
    /// Measures in a child process; oomph starts itself with it
    #[command(hide = true)]
    Probe,
    /// Trains a trial of `oomph tune` in a child process; oomph starts itself with it
    #[command(name = "tune-trial", hide = true)]
    Trial,
}

impl Command {
    /// Whether the command prints JSON.
    pub(crate) fn json(&self) -> bool {
        match self {
            Self::Train(arguments) => arguments.json,
            Self::Evaluate(arguments) => arguments.json,
            Self::Predict(arguments) => arguments.json,
            Self::Runs(arguments) => arguments.json,
            Self::Export(arguments) => arguments.json,
            Self::FindBatch(arguments) => arguments.json,
            Self::FindLr(arguments) => arguments.json,
            Self::Plan(arguments) => arguments.json,
            Self::Profile(arguments) => arguments.json,
            Self::Calibrate(arguments) => arguments.json,
            Self::Compare(arguments) => arguments.json,
            Self::Tune(arguments) => arguments.json,
            Self::Summary(arguments) => arguments.json,
            Self::Config(arguments) => arguments.json,
            Self::Init(arguments) => arguments.json,
            Self::Data(arguments) => arguments.json,
            Self::Tokenizer(arguments) => arguments.json,
            Self::Devices(arguments) => arguments.json,
            Self::Doctor(arguments) => arguments.json,
            Self::VerifyGpu(arguments) => arguments.json,
            Self::Monitor(arguments) => arguments.json,
            Self::Completions(_) => false,
            Self::Probe | Self::Trial => true,
        }
    }

    /// Whether the command prints warnings and errors alone.
    pub(crate) fn quiet(&self) -> bool {
        match self {
            Self::Train(arguments) => arguments.quiet,
            Self::Evaluate(arguments) => arguments.quiet,
            Self::Profile(arguments) => arguments.quiet,
            Self::VerifyGpu(arguments) => arguments.quiet,
            Self::Tune(arguments) => arguments.quiet,
            Self::FindLr(arguments) => arguments.quiet,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn paragraphs_are_joined_and_examples_stay() {
        let text = "One\nparagraph.\nGoes on.\n\nExamples:\n  oomph a\n  oomph b\n\nThe\nend.";
        assert_eq!(joined(text), "One paragraph. Goes on.\n\nExamples:\n  oomph a\n  oomph b\n\nThe end.");
    }
}

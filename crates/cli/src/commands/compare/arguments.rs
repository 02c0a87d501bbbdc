use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use oomph_arguments::{DeviceArguments, Flag, NamedConfigArguments, count};
use oomph_config::{Config, sections::train::MOST_SAMPLES};
use oomph_trainer::measure::WARMUP;

use super::optimizer::Chosen;
use crate::{error::CliError, output::OverwriteArguments};

/// The warm-up and one more step, so that there is a median.
const LEAST_STEPS: usize = WARMUP + 1;

/// Settings that change memory.
#[derive(Args, Debug)]
pub(super) struct LeverArguments {
    /// Precisions to compare (`memory.precision`): fp32, bf16, fp16
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(super) precisions: Vec<String>,
    /// What backward recomputes (`memory.recompute`): none, ops, stages, auto, or names of stages as
    /// in `layer1+layer2`
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(super) recompute: Vec<String>,
    /// Whether layers keep fewer tensors for backward than Burn's layers (`memory.lean`)
    #[arg(long, value_name = "BOOL,…", value_delimiter = ',')]
    pub(super) lean: Vec<bool>,
    /// How long gradients stay (`memory.gradients`): keep, release
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(super) gradients: Vec<String>,
    /// Tokens whose logits exist at the same time (`memory.loss_chunk`): numbers, or none
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub(super) loss_chunks: Vec<String>,
    /// Formats of the optimizer's state (`optimizer.state`): fp32, bf16, int8
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(super) states: Vec<String>,
    /// What lies in host memory (`memory.offload`): none, optimizer, activations, optimizer+activations
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(super) offload: Vec<String>,
    /// How several devices share the work (`device.strategy`): ddp, dp, model, pipeline
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(super) strategies: Vec<String>,
    /// What replicas divide among them (`device.shard`): none, optimizer, gradients, parameters
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(super) shard: Vec<String>,
}

#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("what").args(["optimizers", "batches", "micro_batches", "precisions", "recompute", "lean", "gradients", "loss_chunks", "states", "offload", "strategies", "shard"]).required(true).multiple(true)),
    override_usage = "oomph compare [OPTIONS] --optimizers <NAME,…> [CONFIG]\n       oomph compare [OPTIONS] --batches <N,…> [CONFIG]",
    after_help = "\
Each combination trains in its own process, with the same seed and the same data in the same order.
An optimizer that the config does not name uses its own defaults, including the learning rate;
`--set optimizer.lr=…` applies to all. A combination that runs out of memory is a row of the table.

Examples:
  oomph compare --optimizers sgd,momentum,adam,adamw
  oomph compare --optimizers adam+lr=0.001,adam+lr=0.01 --steps 100 --sort loss
  oomph compare lstm --optimizers adamw,adan --batches 8,32 --html page.html
  oomph compare --config synthetic-resnet50 --batches 32,256,2048 --plan-only
  oomph compare --precisions fp32,bf16 --recompute none,stages,layer1+layer2
  oomph compare --devices cpu,cpu --shard none,optimizer,gradients,parameters"
)]
pub(crate) struct CompareArguments {
    /// Optimizers to compare: values of `optimizer.name`, or `momentum` for sgd with momentum 0.9;
    /// `adam+lr=0.01` sets a key of one optimizer
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(super) optimizers: Vec<Chosen>,
    /// Batches to compare (`train.batch`)
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = count(1..=MOST_SAMPLES))]
    pub(super) batches: Vec<u32>,
    /// Micro-batches to compare (`memory.micro_batch`)
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = count(1..=MOST_SAMPLES))]
    pub(super) micro_batches: Vec<u32>,
    #[command(flatten)]
    pub(super) levers: LeverArguments,
    /// Optimizer steps of each training; the first two are not timed
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = count(LEAST_STEPS..))]
    pub(super) steps: u32,
    /// Plan without training; allocates nothing, whatever the batch
    #[arg(long, conflicts_with = "steps")]
    pub(super) plan_only: bool,
    /// Order of the rows: as given, or by planned peak, step time or loss
    #[arg(long, value_name = "BY", value_enum, default_value_t = Sort::Asked)]
    pub(super) sort: Sort,
    #[command(flatten)]
    config: NamedConfigArguments,
    #[command(flatten)]
    device: DeviceArguments,
    /// Also write a page with bar charts to FILE
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    #[command(flatten)]
    pub(super) overwrite: OverwriteArguments,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// The order of the rows, the least first. Rows without the value come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Sort {
    Asked,
    Peak,
    Time,
    Loss,
}

impl CompareArguments {
    /// The configuration with more flags.
    pub(super) fn load(&self, more: &[Flag<'_>]) -> Result<Config, CliError> {
        let steps = self.steps.to_string();
        let mut flags = self.device.flags().to_vec();
        let value = Some(steps.as_str()).filter(|_| !self.plan_only);
        flags.push(Flag { name: "--steps", key: "train.steps", value });
        flags.extend(more);
        Ok(self.config.named().load(&flags)?)
    }

    /// Refuses misspelt optimizers before minutes of training.
    pub(super) fn check_optimizers(&self, base: &Config) -> Result<(), CliError> {
        self.optimizers.iter().try_for_each(|chosen| {
            let settings = chosen.settings(base);
            let flags =
                settings.iter().map(|(key, value)| Flag { name: "--optimizers", key, value: Some(value) });
            self.load(&flags.collect::<Vec<_>>()).map(drop).map_err(|error| chosen.explain(error))
        })
    }
}

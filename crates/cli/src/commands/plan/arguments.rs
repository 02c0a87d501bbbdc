use std::path::PathBuf;

use clap::Args;
use oomph_arguments::{DeviceArguments, Flag, NamedConfigArguments, StrategyArguments, count};
use oomph_config::{Config, DeviceName, sections::train::MOST_SAMPLES};
use oomph_memory::gpu::{GpuMemory, MultiGpu};
use oomph_timeline::Timeline;

use crate::{
    error::CliError,
    output::{self, OverwriteArguments},
};

#[derive(Args, Debug)]
#[command(after_help = "\
Nothing is computed and no tensor is allocated: oomph records the operations of a step and simulates
the allocator of the device.

Examples:
  oomph plan
  oomph plan --config synthetic-resnet50 --batch 1,8,64,512 --gpu 24GiB
  oomph plan --config synthetic-resnet50 --gpu \"RTX 4090\" --html plan.html
  oomph plan --config synthetic-resnet50 --batch 64 --svg plan.svg
  oomph plan --config synthetic-resnet50 --gpu \"4xRTX 4090\"
  oomph plan synthetic-resnet50 --batch 64 --gpu 12GiB --fit
  oomph plan synthetic-resnet50 --strategy pipeline --gpu 2x24GiB,1x16GiB")]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    config: NamedConfigArguments,
    /// Batches to plan [default: 1, 8, 64, 512 and the config's batch]
    // With a billion samples every product fits into 64 bits.
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = count(1..=MOST_SAMPLES))]
    pub(super) batch: Vec<u32>,
    /// Plan for a GPU of this memory, as in `8GiB`, or of this name, as in `RTX 4090`; for several
    /// GPUs with their number, as in `4x24GiB`, or as a list, as in `24GiB,16GiB`
    #[arg(long, value_name = "GPUS", conflicts_with_all = ["memory_limit", "devices"])]
    gpu: Option<String>,
    #[command(flatten)]
    device: DeviceArguments,
    #[command(flatten)]
    strategy: StrategyArguments,
    /// Show peak memory against time: what `memory.fit = "auto"` chooses under lower and lower
    /// limits, for the first batch of --batch, or the config's batch
    #[arg(long, conflicts_with = "svg")]
    pub(super) fit: bool,
    /// Also write the memory timeline of the first batch of --batch, or of the config's batch, as a
    /// page to FILE; with --fit the rows of its table
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Also write the same timeline as a picture to FILE
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(super) overwrite: OverwriteArguments,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

impl PlanArguments {
    /// Writes a timeline to the named files and returns their paths.
    pub(super) fn write(&self, timeline: &Timeline) -> Result<Vec<PathBuf>, CliError> {
        let files = [self.html.as_deref(), self.svg.as_deref()];
        output::write_timeline(timeline, files, self.overwrite.existing())
    }

    /// The configuration to plan, and the GPUs of `--gpu`: one per device, or none.
    ///
    /// If `--gpu` gives a number of GPUs, these are the devices. A single GPU stands for each configured device.
    pub(super) fn load(&self) -> Result<(Config, Vec<GpuMemory>), CliError> {
        let [devices, limit] = self.device.flags();
        let flags = [devices, self.strategy.flag(), limit];
        let gpus = self.gpu.as_deref().map(str::parse::<MultiGpu>).transpose().map_err(CliError::Gpu)?;
        let Some(gpus) = gpus else {
            return Ok((self.config.named().load(&flags)?, Vec::new()));
        };
        let MultiGpu { each: mut gpus, is_counted } = gpus;
        if !is_counted {
            let config = self.config.named().load(&flags)?;
            let configured = config.device.devices.len();
            if configured == 1 {
                return Ok((config, gpus));
            }
            gpus = vec![gpus[0].clone(); configured];
        }
        let names: Vec<_> = (0..gpus.len()).map(|index| DeviceName::Cuda(index).to_string()).collect();
        let names = names.join(",");
        let counted = Flag { name: "--gpu", key: "device.devices", value: Some(&names) };
        Ok((self.config.named().load(&[counted, self.strategy.flag(), limit])?, gpus))
    }
}

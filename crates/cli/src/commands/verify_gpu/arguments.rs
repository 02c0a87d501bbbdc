use std::path::PathBuf;

use clap::Args;
use oomph_config::DeviceName;
use oomph_trainer::device::first_gpu;

use crate::output::OverwriteArguments;

#[derive(Args, Debug)]
#[command(after_help = "\
It runs a fixed list of small trainings on built-in data, each in its own process, and writes their
figures to one file:
  device       the card, its driver and its libraries
  numerics     losses of the GPU against those of the CPU, in fp32, fp16 and bf16
  memory       planned memory against the memory pools of the GPU
  card         the memory pools against what the driver counts
  first step   its time with and without compiled kernels
  speed        the time of a step

Nothing is sent. The exit code is 1 if a check fails.

Examples:
  oomph verify-gpu
  oomph verify-gpu --quick
  oomph verify-gpu --devices cuda:1 --out second-card.json")]
pub(crate) struct VerifyGpuArguments {
    /// The GPU to verify, such as `cuda:0` or `vulkan:0` [default: the first GPU of this build];
    /// `cpu` compares the CPU with itself
    #[arg(long = "devices", value_name = "DEVICE")]
    device: Option<DeviceName>,
    /// The file to write
    #[arg(long, value_name = "FILE", default_value = "verify-gpu.json")]
    pub(super) out: PathBuf,
    #[command(flatten)]
    pub(super) overwrite: OverwriteArguments,
    /// Fewer trainings with fewer steps
    #[arg(long)]
    pub(super) quick: bool,
    /// Show no progress
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Print the content of the file as one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

impl VerifyGpuArguments {
    /// The device to verify.
    pub(super) fn device(&self) -> DeviceName {
        self.device.unwrap_or_else(first_gpu)
    }
}

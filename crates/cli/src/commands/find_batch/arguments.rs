use std::str::FromStr;

use clap::Args;
use oomph_arguments::{DeviceArguments, Flag, NamedConfigArguments, StrategyArguments, count};
use oomph_config::{Config, sections::train::MOST_SAMPLES};
use oomph_core::Bytes;

use crate::error::CliError;

#[derive(Args, Debug)]
#[command(after_help = "\
The search starts from the plan and tries batches in child processes. A try runs the first steps,
the last batch of an epoch, an evaluation and the loading of a checkpoint. The search ends when a
batch fits and the next larger one does not. Nothing is saved, and no run directory is changed.

The exit code is 75 if not even the smallest batch fits; a report shows which settings would fit.
The exit code is 1 if the smallest batch runs out of memory although its plan fits.

Examples:
  oomph find-batch --max 512
  oomph find-batch --config my.toml --memory-limit 2GiB --write
  oomph find-batch synthetic-resnet50 --devices cuda:0 --multiple-of 8
  oomph find-batch --effective-batch 256 --memory-limit 1GiB
  oomph find-batch --devices cuda:0,cuda:1 --strategy pipeline")]
pub(crate) struct FindBatchArguments {
    #[command(flatten)]
    pub(super) config: NamedConfigArguments,
    /// Largest batch of the search
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = count(1..=MOST_SAMPLES))]
    pub(super) max: u32,
    /// Smallest batch of the search
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count(1..=MOST_SAMPLES))]
    pub(super) min: u32,
    /// Search only multiples of N
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count(1..=MOST_SAMPLES))]
    pub(super) multiple_of: u32,
    #[command(flatten)]
    device: DeviceArguments,
    #[command(flatten)]
    strategy: StrategyArguments,
    /// Share of the memory limit to leave free
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    pub(super) margin: Share,
    /// Keep this batch, and find the largest micro-batch that fits
    #[arg(long, value_name = "N", value_parser = count(1..=MOST_SAMPLES))]
    pub(super) effective_batch: Option<u32>,
    /// Write the result into the config file; its comments are kept
    #[arg(long)]
    pub(super) write: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

impl FindBatchArguments {
    /// The configuration with the flags.
    pub(super) fn load(&self) -> Result<Config, CliError> {
        let batch = self.effective_batch.map(|batch| batch.to_string());
        let batch = Flag { name: "--effective-batch", key: "train.batch", value: batch.as_deref() };
        let [devices, limit] = self.device.flags();
        Ok(self.config.named().load(&[devices, self.strategy.flag(), limit, batch])?)
    }
}

/// A share from 0 up to but not including 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share(f64);

impl Share {
    /// The bytes without this share.
    pub(super) fn less(self, bytes: Bytes) -> Bytes {
        Bytes::new((bytes.get() as f64 * (1.0 - self.0)) as u64)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("expected a percentage of at least `0%` and less than `100%`, such as `5%`")]
pub(super) struct ParseShareError;

impl FromStr for Share {
    type Err = ParseShareError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.trim().strip_suffix('%').ok_or(ParseShareError)?;
        let percent: f64 = number.trim().parse().map_err(|_| ParseShareError)?;
        if (0.0..100.0).contains(&percent) { Ok(Self(percent / 100.0)) } else { Err(ParseShareError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage() {
        let less = |text: &str| text.parse::<Share>().map(|share| share.less(Bytes::new(1000)).get()).ok();
        assert_eq!([less("0%"), less("5%"), less("12.5 %")], [Some(1000), Some(950), Some(875)]);
        for text in ["5", "0.05", "100%", "-1%", "NaN%", "%", "five%"] {
            assert_eq!(less(text), None, "{text}");
        }
    }
}

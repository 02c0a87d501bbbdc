//! Flags that each set a key of the configuration.

use clap::Args;

/// A flag that sets a key.
#[derive(Clone, Copy, Debug)]
pub struct Flag<'a> {
    /// As it is typed, such as `--devices`.
    pub name: &'static str,
    /// The full key.
    pub key: &'a str,
    /// Its value; `None` where the flag is not there.
    pub value: Option<&'a str>,
}

/// The devices of a command and their memory limit.
#[derive(Args, Clone, Debug)]
pub struct DeviceArguments {
    /// One or more devices: `cpu`, `cuda:0`, `cuda:0,cuda:1` (`device.devices`)
    #[arg(long, value_name = "DEVICES")]
    devices: Option<String>,
    /// Memory limit of each device, such as `24GiB` (`memory.limit`)
    #[arg(long, value_name = "SIZE")]
    memory_limit: Option<String>,
}

impl DeviceArguments {
    /// Its flags.
    pub fn flags(&self) -> [Flag<'_>; 2] {
        [
            Flag { name: "--devices", key: "device.devices", value: self.devices.as_deref() },
            Flag { name: "--memory-limit", key: "memory.limit", value: self.memory_limit.as_deref() },
        ]
    }
}

/// How several devices share the work.
#[derive(Args, Clone, Debug)]
pub struct StrategyArguments {
    /// How several devices share the work: `ddp` (the default), `dp`, `model` or `pipeline`
    /// (`device.strategy`)
    #[arg(long, value_name = "NAME")]
    strategy: Option<String>,
}

impl StrategyArguments {
    /// Its flag.
    pub fn flag(&self) -> Flag<'_> {
        Flag { name: "--strategy", key: "device.strategy", value: self.strategy.as_deref() }
    }
}

/// The batch of a training.
#[derive(Args, Clone, Debug)]
pub struct BatchArguments {
    /// Samples of an optimizer step (`train.batch`)
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    batch: Option<String>,
}

impl BatchArguments {
    /// Its flag.
    pub fn flag(&self) -> Flag<'_> {
        Flag { name: "--batch", key: "train.batch", value: self.batch.as_deref() }
    }
}

/// Keys of a training that people change in every other command.
#[derive(Args, Clone, Debug)]
pub struct TrainingArguments {
    #[command(flatten)]
    batch: BatchArguments,
    /// Epochs to train (`train.epochs`)
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    epochs: Option<String>,
    /// Optimizer steps to train, instead of epochs (`train.steps`)
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    steps: Option<String>,
    /// Learning rate before the schedule (`optimizer.lr`)
    #[arg(long, value_name = "LR", allow_hyphen_values = true)]
    lr: Option<String>,
    /// Seed of parameters, sample order and augmentation (`train.seed`)
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seed: Option<String>,
    /// Names no device: the answer says which flag does
    #[arg(long = "gpu", value_name = "GPU", hide = true, value_parser = devices_instead)]
    _gpu: Option<String>,
}

/// What to type instead of `--gpu 0`.
fn devices_instead(text: &str) -> Result<String, String> {
    let index = text.parse::<u32>().unwrap_or(0);
    Err(format!("name the device, as in `--devices cuda:{index}`"))
}

impl TrainingArguments {
    /// Its flags.
    pub fn flags(&self) -> [Flag<'_>; 5] {
        [
            self.batch.flag(),
            Flag { name: "--epochs", key: "train.epochs", value: self.epochs.as_deref() },
            Flag { name: "--steps", key: "train.steps", value: self.steps.as_deref() },
            Flag { name: "--lr", key: "optimizer.lr", value: self.lr.as_deref() },
            Flag { name: "--seed", key: "train.seed", value: self.seed.as_deref() },
        ]
    }
}

/// The weights file that a command uses instead of a checkpoint.
#[derive(Args, Clone, Debug)]
pub struct WeightsArguments {
    /// A weights file instead of a checkpoint: safetensors, or a state dict of `torch.save`
    /// (`model.weights`)
    #[arg(long, value_name = "FILE")]
    pub weights: Option<String>,
}

impl WeightsArguments {
    /// Its flag.
    pub fn flag(&self) -> Flag<'_> {
        Flag { name: "--weights", key: "model.weights", value: self.weights.as_deref() }
    }
}

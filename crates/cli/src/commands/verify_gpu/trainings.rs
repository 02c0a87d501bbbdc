//! The trainings of the checks. Their data is built in or synthetic.

use oomph_config::{Config, ConfigFile, DeviceName, Sources};

use crate::error::CliError;

/// A training by its name.
#[derive(Debug)]
pub(super) struct Training {
    pub(super) name: &'static str,
    config: &'static str,
}

/// A narrow ResNet-18 on the digits. Its steps are short: in longer ones rounding errors decide about ReLUs, and losses part.
pub(super) const RESNET: Training = Training {
    name: "ResNet, digits",
    config: "
        model = { name = 'resnet18', stem = 'small', width = 8 }
        data = { source = 'digits', workers = 0, last_batch = 'drop' }
        train = { steps = 1000, batch = 16, seed = 0, eval_every = 'never' }
        optimizer = { name = 'sgd', lr = 2e-4, momentum = 0.9, weight_decay = 5e-4 }",
};

/// A small LSTM on the rows of the digits.
pub(super) const LSTM: Training = Training {
    name: "LSTM, digits",
    config: "
        model = { name = 'lstm', hidden = 24, layers = 2 }
        data = { source = 'digits', layout = 'rows', workers = 0, last_batch = 'drop' }
        train = { steps = 1000, batch = 16, seed = 0, eval_every = 'never' }
        optimizer = { name = 'adamw', lr = 4e-3, clip_global_norm = 1.0 }",
};

/// A small language model.
pub(super) const LANGUAGE: Training = Training {
    name: "language model",
    config: "
        model = { name = 'lstm-lm', hidden = 32, layers = 1 }
        data = { source = 'synthetic', kind = 'tokens', steps = 16, workers = 0 }
        train = { steps = 1000, batch = 8, seed = 0, eval_every = 'never' }
        optimizer = { name = 'adam', lr = 6e-3 }",
};

/// An LSTM of common size.
pub(super) const WIDE_LSTM: Training = Training {
    name: "LSTM, 128 → 256, 64 steps",
    config: "
        model = { name = 'lstm', hidden = 256 }
        data = { source = 'synthetic', kind = 'sequence', steps = 64, features = 128, workers = 0 }
        train = { steps = 1000, batch = 32, seed = 0, eval_every = 'never' }
        optimizer.name = 'adamw'",
};

/// ResNet-18 at full width on small images.
pub(super) const RESNET18: Training = Training {
    name: "ResNet-18, 32²",
    config: "
        model = { name = 'resnet18', stem = 'small' }
        data = { source = 'synthetic', height = 32, width = 32, workers = 0 }
        train = { steps = 1000, batch = 32, seed = 0, eval_every = 'never' }
        optimizer = { name = 'sgd', lr = 1e-2, momentum = 0.9, weight_decay = 5e-4 }",
};

/// ResNet-50 on large images, with a batch that most cards hold.
pub(super) const RESNET50: Training = Training {
    name: "ResNet-50, 224²",
    config: "
        model.name = 'resnet50'
        data = { source = 'synthetic', height = 224, width = 224, classes = 1000, workers = 0 }
        train = { steps = 1000, batch = 8, seed = 0, eval_every = 'never' }
        optimizer = { name = 'sgd', lr = 1e-2, momentum = 0.9, weight_decay = 1e-4 }",
};

impl Training {
    /// The configuration on a device, with more settings such as `train.batch=8`.
    pub(super) fn config(&self, device: DeviceName, settings: &[String]) -> Result<Config, CliError> {
        let mut sources =
            Sources::new(ConfigFile::from_text("verify-gpu".to_owned(), self.config.to_owned()));
        for setting in settings {
            sources = sources.set(setting)?;
        }
        Ok(Config::load(&sources.flag("--devices", "device.devices", &device.to_string())?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_training_has_a_valid_configuration() {
        for training in [&RESNET, &LSTM, &LANGUAGE, &WIDE_LSTM, &RESNET18, &RESNET50] {
            let config = training.config(DeviceName::Cuda(0), &["memory.precision=bf16".to_owned()]);
            assert!(config.is_ok(), "{}: {config:?}", training.name);
        }
    }
}

use std::{fmt, str::FromStr};

use oomph_config::{Config, ConfigError, Entry, Origin, Value};

use crate::error::CliError;

/// An optimizer to compare: `adam`, `momentum`, `adam+lr=0.01`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    /// As typed.
    text: String,
    name: String,
    /// The keys behind its name, with their values.
    own: Vec<(String, String)>,
}

/// A text that names no optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a name such as `adam`, or a name with settings such as `adam+lr=0.01`")]
pub(super) struct ParseChosenError;

/// A name for sgd with momentum 0.9.
const MOMENTUM: &str = "momentum";

impl FromStr for Chosen {
    type Err = ParseChosenError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.trim().split('+').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty()).ok_or(ParseChosenError)?.to_owned();
        let own = parts.map(|part| match part.split_once('=') {
            Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok((key.into(), value.into())),
            _ => Err(ParseChosenError),
        });
        Ok(Self { text: text.trim().to_owned(), name, own: own.collect::<Result<_, _>>()? })
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Chosen {
    /// The keys and values that it sets.
    ///
    /// Settings of the config file apply to the optimizer of the file alone: a learning rate for sgd is far too large for
    /// adam. Other optimizers use their defaults. `--set` applies to every optimizer that knows the key.
    pub(super) fn settings(&self, base: &Config) -> Vec<(String, String)> {
        let (name, momentum) = match self.name.as_str() {
            MOMENTUM => ("sgd", Some("0.9")),
            // Otherwise it would equal `momentum` if the config sets a momentum.
            "sgd" => ("sgd", Some("0.0")),
            name => (name, None),
        };
        let mut settings = vec![("optimizer.name".to_owned(), Value::from(name).to_string())];
        let momentum = momentum.filter(|_| !is_typed(base, "optimizer.momentum"));
        settings.extend(momentum.map(|momentum| ("optimizer.momentum".to_owned(), momentum.to_owned())));
        settings.extend(self.own.iter().map(|(key, value)| (format!("optimizer.{key}"), value.clone())));
        settings
    }

    /// Explains an error of its configuration: adds `momentum` to the allowed names, and what was typed if it has keys.
    pub(super) fn explain(&self, error: CliError) -> CliError {
        match error {
            CliError::Config(ConfigError::NotAllowed { setting, mut allowed }) => {
                allowed.insert(1.min(allowed.len()), MOMENTUM.to_owned());
                CliError::Config(ConfigError::NotAllowed { setting, allowed })
            }
            CliError::Config(source) if !self.own.is_empty() => {
                CliError::Compared { optimizer: self.text.clone(), source }
            }
            error => error,
        }
    }
}

/// Whether a key was given on the command line.
fn is_typed(base: &Config, key: &str) -> bool {
    let typed = |entry: &Entry| entry.key == key && matches!(entry.origin, Origin::Set | Origin::Flag(_));
    base.resolved().iter().any(typed)
}

#[cfg(test)]
mod tests {
    use oomph_config::{ConfigFile, OptimizerKind, Sources};

    use super::*;

    const FILE: &str =
        "[optimizer]\nname = 'sgd'\nlr = 0.3\nmomentum = 0.8\nnesterov = true\nweight_decay = 5e-4";

    /// The resolved optimizer with the file and `--set`.
    fn optimizer(chosen: &str, sets: &[&str]) -> oomph_config::Optimizer {
        let mut sources = Sources::new(ConfigFile::from_text("x.toml", FILE));
        for assignment in sets {
            sources = sources.set(assignment).unwrap();
        }
        let base = Config::load(&sources).unwrap();
        for (key, value) in chosen.parse::<Chosen>().unwrap().settings(&base) {
            sources = sources.flag("--optimizers", &key, &value).unwrap();
        }
        Config::load(&sources).unwrap().optimizer
    }

    #[test]
    fn an_optimizer_of_the_config_keeps_its_settings() {
        let plain = optimizer("sgd", &[]);
        assert_eq!((plain.lr, plain.weight_decay), (0.3, 5e-4));
        assert_eq!(plain.kind, OptimizerKind::Sgd { momentum: 0.0, dampening: 0.0, nesterov: false });
        let momentum = optimizer("momentum", &[]);
        assert_eq!(momentum.kind, OptimizerKind::Sgd { momentum: 0.9, dampening: 0.0, nesterov: true });
    }

    #[test]
    fn another_one_has_its_own_defaults() {
        let adam = optimizer("adam", &[]);
        assert_eq!((adam.lr, adam.weight_decay), (1e-3, 5e-4));
        // The file's momentum belongs to sgd, though rmsprop has one too.
        let rmsprop = optimizer("rmsprop", &[]);
        assert!(matches!(rmsprop.kind, OptimizerKind::RmsProp { momentum: 0.0, .. }), "{rmsprop:?}");
    }

    #[test]
    fn set_applies_to_all_optimizers_with_the_key() {
        assert_eq!(optimizer("adam", &["optimizer.lr=0.5"]).lr, 0.5);
        assert_eq!(optimizer("adam+lr=0.25", &["optimizer.lr=0.5"]).lr, 0.25);
        let set = optimizer("sgd", &["optimizer.momentum=0.7"]);
        assert!(matches!(set.kind, OptimizerKind::Sgd { momentum: 0.7, .. }), "{set:?}");
    }

    #[test]
    fn malformed_optimizers_are_refused() {
        for text in ["", "+lr=1", "adam+lr", "adam+=1", "adam+lr="] {
            assert_eq!(text.parse::<Chosen>(), Err(ParseChosenError), "{text}");
        }
    }
}

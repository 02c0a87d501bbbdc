use std::collections::BTreeMap;

use crate::{
    error::ConfigError,
    file::ConfigFile,
    origin::Origin,
    parse::{Flat, parse_typed},
    retired,
    setting::Setting,
    value::shortened,
};

/// The layers of a configuration: the config that a file extends, the file, then `--set key=value`, then flags of their own. A later layer overrides an
/// earlier one; keys that none of them gives have their defaults.
///
/// ```
/// use oomph_config::{Config, ConfigFile, Sources};
///
/// let file = ConfigFile::from_text("small.toml", "[train]\nbatch = 64\nepochs = 2");
/// let sources = Sources::new(file).set("train.batch=8")?.flag("--devices", "device.devices", "cpu")?;
/// let config = Config::load(&sources)?;
/// assert_eq!(config.train.batch, 8);
/// assert_eq!(config.train.length.epochs, Some(2));
/// # Ok::<(), oomph_config::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Sources {
    file: Option<ConfigFile>,
    sets: Vec<Flat>,
    flags: Vec<Flat>,
}

impl Sources {
    /// The layer of a config file.
    pub fn new(file: ConfigFile) -> Self {
        Self { file: Some(file), ..Self::default() }
    }

    /// Adds the argument of a `--set`, such as `train.batch=64`. The value is written as in TOML; a word that is not TOML,
    /// such as `adam` or `../data`, is a string. Of two values for one key the later one counts.
    ///
    /// # Errors
    /// A text that is not `key=value`, or a value that begins as a list, table or quoted string and is none.
    pub fn set(mut self, assignment: &str) -> Result<Self, ConfigError> {
        let malformed = || ConfigError::MalformedSet { text: shortened(assignment) };
        let (key, value) = assignment.split_once('=').ok_or_else(malformed)?;
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() || value.is_empty() {
            return Err(malformed());
        }
        self.sets.push(parse_typed(key, value, &Origin::Set)?);
        Ok(self)
    }

    /// Adds the value of a flag that has a key of its own, such as `--devices` for `device.devices`.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn flag(mut self, flag: &'static str, key: &str, value: &str) -> Result<Self, ConfigError> {
        self.flags.push(parse_typed(key, value, &Origin::Flag(flag))?);
        Ok(self)
    }

    /// The stem of the file's name.
    pub(crate) fn name(&self) -> String {
        self.file.as_ref().map_or_else(|| "config".to_owned(), ConfigFile::stem)
    }

    /// Whether oomph wrote the file.
    pub(crate) fn is_stored(&self) -> bool {
        self.file.as_ref().is_some_and(ConfigFile::is_stored)
    }

    /// All layers as one. Retired keys are translated in a stored file and refused anywhere else.
    pub(crate) fn merged(&self) -> Result<Flat, ConfigError> {
        let mut merged = match &self.file {
            Some(file) => file.flat()?,
            None => Flat::default(),
        };
        if self.is_stored() {
            retired::translate(&mut merged.settings);
        }
        for layer in self.sets.iter().chain(&self.flags) {
            for (key, setting) in layer.settings.clone() {
                setting.stack_on(&mut merged.settings, &key);
            }
        }
        retired::refuse(&merged.settings)?;
        refuse_overlaps(&merged.settings)?;
        Ok(merged)
    }
}

/// Refuses a key that is a value in one layer and a table in another. Within a file the parser does so.
fn refuse_overlaps(settings: &BTreeMap<String, Setting>) -> Result<(), ConfigError> {
    for (key, inner) in settings {
        let above = key.match_indices('.').find_map(|(end, _)| settings.get(&key[..end]));
        if let Some(setting) = above.filter(|setting| setting.key.contains('.')) {
            let (setting, inner) = (Box::new(setting.clone()), Box::new(inner.clone()));
            return Err(ConfigError::Overlap { setting, inner });
        }
    }
    Ok(())
}

use std::{collections::BTreeMap, fmt::Display};

use crate::{
    error::ConfigError,
    file::ConfigFile,
    nearest::nearest,
    parse::Flat,
    section::Section,
    sections::{
        device::DeviceConfig, memory::Memory, optimizer::Optimizer, run::Run, schedule::Schedule,
        train::Train,
    },
    setting::Setting,
    sources::Sources,
};

/// A validated configuration.
///
/// The keys of `[model]` and `[data]` are known to whoever reads these sections; after they did,
/// [`check_all_read`](Self::check_all_read) finds the keys that nobody knows. Everything else is checked by
/// [`load`](Self::load).
#[derive(Clone, Debug)]
pub struct Config {
    /// `[model]`: which network, and its own keys.
    pub model: Section,
    /// `[data]`: which data, and its source's own keys.
    pub data: Section,
    /// `[train]`: how long and on how much at once.
    pub train: Train,
    /// `[optimizer]`: how gradients become steps.
    pub optimizer: Optimizer,
    /// `[schedule]`: how the learning rate goes over a run.
    pub schedule: Schedule,
    /// `[memory]`: what a step may keep and how large it may get.
    pub memory: Memory,
    /// `[device]`: where a run computes.
    pub device: DeviceConfig,
    /// `[run]`: what a run leaves on disk and says while it runs.
    pub run: Run,
    name: String,
    /// All eight sections, in the order of [`SECTIONS`].
    pub(crate) sections: Vec<Section>,
}

/// The sections, in the order in which they are written.
pub(crate) const SECTIONS: [&str; 8] =
    ["model", "data", "train", "optimizer", "schedule", "memory", "device", "run"];

impl Config {
    /// Merges the sources and validates the result.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let flat = sources.merged()?;
        check_sections(&flat)?;
        let sections = SECTIONS.map(|name| section(name, &flat.settings));
        let [model, data, train, optimizer, schedule, memory, device, run] = &sections;
        let typed_train = Train::read(train)?;
        let config = Self {
            model: model.clone(),
            data: data.clone(),
            optimizer: Optimizer::read(optimizer)?,
            schedule: Schedule::read(schedule)?,
            memory: Memory::read(memory, train, typed_train.batch)?,
            device: DeviceConfig::read(device, train, typed_train.batch)?,
            run: Run::read(run)?,
            train: typed_train,
            name: sources.name(),
            sections: sections.to_vec(),
        };
        config.memory.check_devices(memory, &config.device.devices)?;
        for section in &config.sections[2..] {
            config.check_read(section)?;
        }
        Ok(config)
    }

    /// A configuration of one text alone: for tests and for use as a library. `name` names it in messages.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, ConfigError> {
        Self::load(&Sources::new(ConfigFile::from_text(name, text)))
    }

    /// The stem of the config's file name, after which the run directory is called by default.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Refuses a key that is given and that nobody has read. To be called after the model and the data source read
    /// their sections. Where `--set` names another model or source than the file, the file's keys that the new one
    /// does not know are set aside.
    pub fn check_all_read(&self) -> Result<(), ConfigError> {
        self.model.set_unread_aside("name");
        self.data.set_unread_aside("source");
        self.sections.iter().try_for_each(|section| self.check_read(section))
    }

    /// The error that the value of a full key such as `train.task` is not one that its reader knows: for readers that
    /// check more than this crate can.
    pub fn invalid(&self, key: &str, expected: impl Display) -> ConfigError {
        let (section, key) = self.locate(key);
        section.invalid(key, expected)
    }

    /// The error that a full key such as `train.task` names none of those that its reader knows.
    pub fn not_allowed<'a>(&self, key: &str, allowed: impl IntoIterator<Item = &'a str>) -> ConfigError {
        let (section, key) = self.locate(key);
        section.not_allowed(key, allowed)
    }

    /// The section of a full key, and the key within it.
    fn locate<'a>(&self, key: &'a str) -> (&Section, &'a str) {
        let (name, key) = key.split_once('.').unwrap_or(("", key));
        (self.sections.iter().find(|section| section.name() == name).unwrap_or(&self.model), key)
    }

    fn check_read(&self, section: &Section) -> Result<(), ConfigError> {
        section.check_all_read(|key| {
            let mut others =
                self.sections.iter().filter(|other| other.known().iter().any(|known| known == key));
            match (others.next(), others.next()) {
                (Some(only), None) => Some(only.full(key)),
                _ => None,
            }
        })
    }
}

/// The part of the settings that belongs to one section, under keys without its name.
fn section(name: &str, settings: &BTreeMap<String, Setting>) -> Section {
    let own = settings.iter().filter_map(|(key, setting)| {
        let (section, key) = key.split_once('.')?;
        (section == name).then(|| (key.to_owned(), setting.clone()))
    });
    Section::new(name, own.collect())
}

/// Refuses what is not within a known section.
fn check_sections(flat: &Flat) -> Result<(), ConfigError> {
    let unknown = |name: &str, place: String| ConfigError::UnknownSection {
        name: name.to_owned(),
        place,
        known: SECTIONS.iter().map(|known| (*known).to_owned()).collect(),
    };
    // The line of a section's head is the better place, and a section without keys has no other.
    if let Some((name, origin)) = flat.tables.iter().find(|(name, _)| !SECTIONS.contains(&name.as_str())) {
        return Err(unknown(name, origin.to_string()));
    }
    for (key, setting) in &flat.settings {
        match key.split_once('.') {
            Some((section, _)) if SECTIONS.contains(&section) => {}
            Some((section, _)) => {
                return Err(unknown(section, setting.place().trim_end_matches(": ").to_owned()));
            }
            None if SECTIONS.contains(&key.as_str()) => {
                return Err(ConfigError::SectionAsKey { setting: Box::new(setting.clone()) });
            }
            None => return Err(outside(setting)),
        }
    }
    Ok(())
}

/// The error for a key outside of any section, with the key of a section that was probably meant.
fn outside(setting: &Setting) -> ConfigError {
    let known: Vec<_> = match Config::load(&Sources::default()) {
        Ok(defaults) => defaults.resolved().into_iter().map(|entry| entry.key).collect(),
        Err(error) => return error,
    };
    let bare = |full: &str| full.split_once('.').map_or_else(String::new, |(_, key)| key.to_owned());
    let meant = nearest(
        &setting.key,
        known.iter().map(|full| bare(full)).collect::<Vec<_>>().iter().map(String::as_str),
    )
    .and_then(|meant| known.iter().find(|full| bare(full) == meant).cloned());
    ConfigError::OutsideSections { setting: Box::new(setting.clone()), nearest: meant }
}

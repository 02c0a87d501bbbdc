use std::{collections::BTreeMap, fmt::Display};

use crate::{
    error::ConfigError,
    file::ConfigFile,
    nearest::nearest,
    parse::Flat,
    section::Section,
    section_names::{OPEN_SECTIONS, SECTIONS},
    sections::{
        device::DeviceConfig, memory::Memory, optimizer::Optimizer, run::Run, schedule::Schedule,
        train::Train, tune::Tune,
    },
    setting::Setting,
    sources::Sources,
    synonyms,
};

/// A validated configuration.
///
/// Whoever reads `[model]` and `[data]` knows their keys; afterwards [`check_all_read`](Self::check_all_read) refuses the
/// unknown ones. [`load`](Self::load) checks everything else.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[model]`: which network, and its own keys.
    pub model: Section,
    /// `[data]`: which data, and its source's own keys.
    pub data: Section,
    /// `[train]`: the length of a training and its batches.
    pub train: Train,
    /// `[optimizer]`: how gradients become steps.
    pub optimizer: Optimizer,
    /// `[schedule]`: the learning rate over the course of a run.
    pub schedule: Schedule,
    /// `[memory]`: the policy that bounds the memory of a step.
    pub memory: Memory,
    /// `[device]`: where a run computes.
    pub device: DeviceConfig,
    /// `[run]`: the output of a run on disk and in the log.
    pub run: Run,
    /// `[tune]`: a search; `None` without any of its keys. A training does not read it.
    pub tune: Option<Tune>,
    name: String,
    /// All nine sections, in the order of [`SECTIONS`].
    pub(crate) sections: [Section; 9],
}

impl Config {
    /// Merges the sources and validates the result.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let flat = sources.merged()?;
        check_sections(&flat)?;
        Self::of_sections(
            sources.name(),
            SECTIONS.map(|name| section(name, &flat.settings, sources.is_stored())),
        )
    }

    /// Reads the typed sections and checks them against each other.
    pub(crate) fn of_sections(name: String, sections: [Section; 9]) -> Result<Self, ConfigError> {
        let [model, data, train, optimizer, schedule, memory, device, run, tune] = &sections;
        let typed_train = Train::read(train, data)?;
        let config = Self {
            model: model.clone(),
            data: data.clone(),
            optimizer: Optimizer::read(optimizer)?,
            schedule: Schedule::read(schedule)?,
            memory: Memory::read(memory, train, typed_train.batch)?,
            device: DeviceConfig::read(device, train, typed_train.batch)?,
            run: Run::read(run)?,
            tune: Tune::read(tune, &sections, typed_train.seed)?,
            train: typed_train,
            name,
            sections: sections.clone(),
        };
        config.memory.check_devices(memory, &config.device.devices)?;
        config.memory.check_release(memory, optimizer, device, &config.device.sharing)?;
        config.memory.check_loss_chunk(memory, device, &config.device.sharing)?;
        config.memory.offload.check(memory, &config.memory, &config.optimizer, optimizer)?;
        config.device.sharing.check_shard(device, optimizer, &config.optimizer, run, &config.run)?;
        config.memory.note_idle(memory, &config.device.devices);
        for section in &config.sections[OPEN_SECTIONS.len()..] {
            config.check_read(section)?;
        }
        Ok(config)
    }

    /// A configuration from one text alone: for tests and for use as a library. Messages call the text `name`.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, ConfigError> {
        Self::load(&Sources::new(ConfigFile::from_text(name, text)))
    }

    /// The stem of the config's file name, the default name of the run directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Refuses a given key that no reader asked for. Call it after the model and the data source have read their
    /// sections. Where `--set` names another model or source than the file, keys of the file that the new one does not
    /// know are set aside.
    pub fn check_all_read(&self) -> Result<(), ConfigError> {
        self.model.ledger.set_unread_aside("name");
        self.data.ledger.set_unread_aside("source");
        self.sections.iter().try_for_each(|section| self.check_read(section))
    }

    /// The error for the value of a full key such as `train.task`: for readers that check more than this crate can.
    pub fn invalid(&self, key: &str, expected: impl Display) -> ConfigError {
        let (section, key) = self.locate(key);
        section.invalid(key, expected)
    }

    /// The error for a full key such as `train.task` whose value is none of `allowed`.
    pub fn not_allowed<'a>(&self, key: &str, allowed: impl IntoIterator<Item = &'a str>) -> ConfigError {
        let (section, key) = self.locate(key);
        section.not_allowed(key, allowed)
    }

    /// Notes that a full key such as `device.timeout` has no effect: [`Section::has_no_effect`] for readers of more than one
    /// section.
    pub fn has_no_effect(&self, key: &str, because: impl Into<String>) {
        let (section, key) = self.locate(key);
        section.has_no_effect(key, because);
    }

    /// The section of a full key, and the key within it.
    fn locate<'a>(&self, key: &'a str) -> (&Section, &'a str) {
        let (name, key) = key.split_once('.').unwrap_or(("", key));
        (self.sections.iter().find(|section| section.name() == name).unwrap_or(&self.model), key)
    }

    fn check_read(&self, section: &Section) -> Result<(), ConfigError> {
        section.ledger.check_all_read(|key| {
            let mut others =
                self.sections.iter().filter(|other| other.ledger.known().iter().any(|known| known == key));
            match (others.next(), others.next()) {
                (Some(only), None) => Some(only.ledger.full(key)),
                _ => None,
            }
        })
    }
}

/// The settings of one section, under keys without its name.
fn section(name: &str, settings: &BTreeMap<String, Setting>, is_stored: bool) -> Section {
    let own = settings.iter().filter_map(|(key, setting)| {
        let (section, key) = key.split_once('.')?;
        (section == name).then(|| (key.to_owned(), setting.clone()))
    });
    Section::new(name, own.collect(), is_stored)
}

/// Refuses keys outside of the known sections.
fn check_sections(flat: &Flat) -> Result<(), ConfigError> {
    let unknown = |name: &str, place: String| ConfigError::UnknownSection {
        name: name.to_owned(),
        place,
        known: SECTIONS.iter().map(|known| (*known).to_owned()).collect(),
    };
    // The line of the section's head is the better place; a section without keys has no other.
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

/// The error for a key outside of any section, with the key that was probably meant.
fn outside(setting: &Setting) -> ConfigError {
    let known: Vec<_> = match Config::load(&Sources::default()) {
        Ok(defaults) => defaults.resolved().into_iter().map(|entry| entry.key).collect(),
        Err(error) => return error,
    };
    let bare = known.iter().map(|full| full.split_once('.').map_or("", |(_, key)| key));
    let meant = nearest(&setting.key, bare.clone());
    let nearest = meant.and_then(|meant| known.iter().zip(bare).find(|(_, key)| *key == meant));
    let nearest = nearest.map(|(full, _)| full.clone());
    let nearest = synonyms::meant(&setting.key).map(str::to_owned).or(nearest);
    ConfigError::OutsideSections { setting: Box::new(setting.clone()), nearest }
}

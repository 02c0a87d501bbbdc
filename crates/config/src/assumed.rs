//! Values in place of defaults, from a file that a key of a section names.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use crate::{
    origin::{Layer, Origin},
    section::Section,
    setting::Setting,
    value::Value,
};

/// The values of a section that hold in place of defaults.
#[derive(Debug)]
pub(crate) struct Assumed {
    /// Whether oomph wrote the text of the section.
    pub(crate) is_stored: bool,
    settings: Mutex<BTreeMap<String, Setting>>,
}

impl Assumed {
    pub(crate) fn new(is_stored: bool) -> Self {
        Self { is_stored, settings: Mutex::default() }
    }

    pub(crate) fn get(&self, key: &str) -> Option<Setting> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }
}

/// Lets `value` hold in place of the default of `key`, for readers that ask later. What a source gives overrides it.
///
/// ```
/// use oomph_config::{Origin, Section, assumed::assume};
///
/// let model = Section::from_toml("model", "layers = 3")?;
/// let origin = |key: &str| Origin::Network { path: "config.json".into(), key: key.into() };
/// assume(&model, "layers", 12usize, origin("n_layer"));
/// assume(&model, "width", 48usize, origin("n_embd"));
/// assert_eq!((model.integer("layers", 1, 1..)?, model.integer("width", 8, 1..)?), (3, 48));
/// # Ok::<(), oomph_config::ConfigError>(())
/// ```
pub fn assume(section: &Section, key: &str, value: impl Into<Value>, origin: Origin) {
    let setting = Setting::new(section.ledger.full(key), value.into(), origin);
    let settings = &section.ledger.assumed.settings;
    settings.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), setting);
}

/// Whether the key is given in a configuration that oomph stored: a file that it names may be gone.
pub fn is_stored(section: &Section, key: &str) -> bool {
    let is_of_text = |setting: &Setting| setting.origin.layer() <= Layer::Text;
    section.ledger.assumed.is_stored && section.ledger.all_given().get(key).is_some_and(is_of_text)
}

//! Keys that an earlier version of oomph knew by another name.
//!
//! A user's config with such a key is refused with the new name as hint. A configuration that oomph stored, in a run
//! directory or a checkpoint, is translated.

use std::collections::BTreeMap;

use crate::{error::ConfigError, setting::Setting};

/// The old full key and the new one.
const RETIRED: &[(&str, &str)] = &[("device.cut", "device.split_points")];

/// Refuses a key that has a new name.
///
/// # Errors
/// [`ConfigError::RetiredKey`] for the first retired key.
pub(crate) fn refuse(settings: &BTreeMap<String, Setting>) -> Result<(), ConfigError> {
    RETIRED.iter().try_for_each(|&(old, replacement)| match settings.get(old) {
        Some(setting) => Err(ConfigError::RetiredKey { setting: Box::new(setting.clone()), replacement }),
        None => Ok(()),
    })
}

/// Gives retired keys their new names.
pub(crate) fn translate(settings: &mut BTreeMap<String, Setting>) {
    for (old, new) in RETIRED {
        if let Some(setting) = settings.remove(*old) {
            let renamed = || Setting { key: (*new).to_owned(), ..setting };
            settings.entry((*new).to_owned()).or_insert_with(renamed);
        }
    }
}

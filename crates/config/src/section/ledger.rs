//! What a section was given, what its readers asked for, and what follows from the two.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::Section;
use crate::{
    error::ConfigError, nearest::nearest, origin::Origin, report::Entry, setting::Setting, value::Value,
};

#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) name: String,
    given: BTreeMap<String, Setting>,
    seen: Mutex<Seen>,
}

/// What readers did to a section.
#[derive(Debug, Default)]
struct Seen {
    /// Every key asked for, in the order of the first time.
    asked: Vec<Asked>,
    /// Keys that a choice of a higher layer made void, with that choice.
    set_aside: BTreeMap<String, Setting>,
}

#[derive(Debug)]
struct Asked {
    key: String,
    expected: String,
    value: Option<Value>,
    origin: Origin,
}

impl Section {
    /// A section of these keys, which are given without the section's name.
    pub(crate) fn new(name: &str, given: BTreeMap<String, Setting>) -> Self {
        Self(Arc::new(Ledger { name: name.to_owned(), given, seen: Mutex::default() }))
    }

    /// The error for a value that a later version will honour.
    pub(crate) fn not_yet(&self, key: &str, supported: &'static str) -> ConfigError {
        match self.setting(key) {
            Some(setting) => ConfigError::NotYetSupported { setting: Box::new(setting), supported },
            None => ConfigError::Missing { key: self.full(key), expected: supported.to_owned() },
        }
    }

    /// The key as it stands: given, or its default once it was asked for.
    pub(crate) fn setting(&self, key: &str) -> Option<Setting> {
        self.given(key).or_else(|| {
            let seen = self.seen();
            let asked = seen.asked.iter().find(|asked| asked.key == key)?;
            Some(Setting { key: self.full(key), value: asked.value.clone()?, origin: asked.origin.clone() })
        })
    }

    /// The key as it stands, or with `value` as its default.
    pub(crate) fn setting_or(&self, key: &str, value: Value) -> Setting {
        self.setting(key).unwrap_or_else(|| Setting { key: self.full(key), value, origin: Origin::Default })
    }

    /// The key if it is given and was not set aside.
    pub(crate) fn given(&self, key: &str) -> Option<Setting> {
        let setting = self.0.given.get(key)?;
        (!self.seen().set_aside.contains_key(key)).then(|| setting.clone())
    }

    /// Makes a key void because of a choice in a higher layer.
    pub(crate) fn set_aside(&self, key: &str, by: Setting) {
        self.seen().set_aside.insert(key.to_owned(), by);
    }

    /// The keys that choices of a higher layer made void, each with that choice.
    pub(crate) fn void(&self) -> Vec<(Setting, Setting)> {
        let seen = self.seen();
        let with_choice = |(key, by): (&String, &Setting)| Some((self.0.given.get(key)?.clone(), by.clone()));
        seen.set_aside.iter().filter_map(with_choice).collect()
    }

    /// The keys asked for so far.
    pub(crate) fn known(&self) -> Vec<String> {
        self.seen().asked.iter().map(|asked| asked.key.clone()).collect()
    }

    /// The keys that are given and that nobody asked for.
    pub(crate) fn unread(&self) -> Vec<Setting> {
        let known = self.known();
        let unread = |key: &String| !known.contains(key) && self.contains(key);
        self.0.given.iter().filter(|(key, _)| unread(key)).map(|(_, setting)| setting.clone()).collect()
    }

    /// Refuses a key that is given and that nobody asked for. `elsewhere` gives the full key of another section that
    /// a key may have been meant for.
    pub(crate) fn check_all_read(
        &self,
        elsewhere: impl Fn(&str) -> Option<String>,
    ) -> Result<(), ConfigError> {
        let Some(setting) = self.unread().into_iter().next() else { return Ok(()) };
        let known = self.known();
        let key = setting.key.split_once('.').map_or("", |(_, key)| key);
        let near = || nearest(key, known.iter().map(String::as_str)).map(|near| self.full(near));
        let nearest = elsewhere(key).or_else(near);
        Err(ConfigError::UnknownKey { setting: Box::new(setting), nearest, known })
    }

    /// Everything known of the section: keys in the order they were asked for, then keys nobody has asked for yet.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let seen = self.seen();
        let asked = seen.asked.iter().map(|asked| Entry {
            key: self.full(&asked.key),
            value: asked.value.clone(),
            origin: asked.origin.clone(),
            expected: Some(asked.expected.clone()),
        });
        let unread = self.0.given.iter().filter(|(key, _)| {
            !seen.set_aside.contains_key(*key) && !seen.asked.iter().any(|asked| asked.key == **key)
        });
        let unread = unread.map(|(_, setting)| Entry {
            key: setting.key.clone(),
            value: Some(setting.value.clone()),
            origin: setting.origin.clone(),
            expected: None,
        });
        asked.chain(unread).collect()
    }

    /// Records what a key that is absent means, such as a default that depends on other keys.
    pub(crate) fn record(&self, key: &str, expected: &str, value: Option<Value>, origin: Origin) {
        let asked = Asked { key: key.to_owned(), expected: expected.to_owned(), value, origin };
        let mut seen = self.seen();
        match seen.asked.iter_mut().find(|earlier| earlier.key == key) {
            Some(earlier) => *earlier = asked,
            None => seen.asked.push(asked),
        }
    }

    /// The key with the name of the section.
    pub(crate) fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.0.name)
    }

    /// A reader that panicked left complete records behind, so a poisoned lock is as good as any.
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

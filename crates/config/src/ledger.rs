//! The given keys of a section, the keys that its readers asked for, and the checks on both.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{
    assumed::Assumed,
    error::ConfigError,
    nearest::nearest,
    origin::Origin,
    setting::{Entry, Idle, SetAside, Setting},
    synonyms,
    value::Value,
};

/// The memory of a [`Section`](crate::Section). Its methods take keys without the section's name.
#[derive(Debug)]
pub(crate) struct Ledger {
    name: String,
    given: BTreeMap<String, Setting>,
    pub(crate) assumed: Assumed,
    reads: Mutex<Reads>,
}

/// The traces of readers in a section.
#[derive(Debug, Default)]
struct Reads {
    /// Every key asked for, in the order of the first time.
    asked: Vec<Entry>,
    /// The defaults of the keys that have one.
    defaults: BTreeMap<String, Value>,
    /// Keys that a choice of a higher layer made void, each with that choice, and why.
    set_aside: BTreeMap<String, (Setting, Aside)>,
    /// Keys that have no effect, each with the reason.
    idle: BTreeMap<String, String>,
}

/// Why a key is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aside {
    /// It belongs to another choice than the one in force.
    OtherChoice,
    /// A higher layer says the same thing by another key.
    Replaced,
}

impl Ledger {
    pub(crate) fn new(name: &str, given: BTreeMap<String, Setting>, is_stored: bool) -> Self {
        Self { name: name.to_owned(), given, assumed: Assumed::new(is_stored), reads: Mutex::default() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// All keys that are given, those set aside too.
    pub(crate) fn all_given(&self) -> &BTreeMap<String, Setting> {
        &self.given
    }

    /// The setting in force: the given one, or the default once a reader asked for the key.
    pub(crate) fn setting(&self, key: &str) -> Option<Setting> {
        self.given(key).or_else(|| {
            let (reads, key) = (self.reads(), self.full(key));
            let asked = reads.asked.iter().find(|asked| asked.key == key)?;
            Some(Setting::new(key, asked.value.clone()?, asked.origin.clone()))
        })
    }

    /// The setting in force, with `value` as its default.
    pub(crate) fn setting_or(&self, key: &str, value: Value) -> Setting {
        self.setting(key).unwrap_or_else(|| Setting::new(self.full(key), value, Origin::Default))
    }

    /// The key if it is given and was not set aside.
    pub(crate) fn given(&self, key: &str) -> Option<Setting> {
        let setting = self.given.get(key)?;
        (!self.reads().set_aside.contains_key(key)).then(|| setting.clone())
    }

    /// Makes a key void because of a choice in a higher layer.
    pub(crate) fn set_aside(&self, key: &str, by: Setting, because: Aside) {
        self.reads().set_aside.insert(key.to_owned(), (by, because));
    }

    /// The keys that choices of a higher layer made void, each with that choice.
    pub(crate) fn void(&self) -> Vec<SetAside> {
        let reads = self.reads();
        let with_choice = |(key, (by, because)): (&String, &(Setting, Aside))| {
            let setting = self.given.get(key)?.clone();
            Some(SetAside { setting, by: by.clone(), is_replaced: *because == Aside::Replaced })
        };
        reads.set_aside.iter().filter_map(with_choice).collect()
    }

    /// Notes that a key has no effect here.
    pub(crate) fn note_idle(&self, key: &str, because: String) {
        self.reads().idle.insert(key.to_owned(), because);
    }

    /// The keys that are given, with another value than the default, and have no effect.
    pub(crate) fn idle(&self) -> Vec<Idle> {
        let reads = self.reads();
        let given = |(key, because): (&String, &String)| {
            let setting = self.given.get(key).filter(|_| !reads.set_aside.contains_key(key))?.clone();
            let is_default = reads.defaults.get(key).is_some_and(|default| default.same(&setting.value));
            (!is_default).then(|| Idle { setting, because: because.clone() })
        };
        reads.idle.iter().filter_map(given).collect()
    }

    /// The keys asked for so far.
    pub(crate) fn known(&self) -> Vec<String> {
        self.reads().asked.iter().map(|asked| asked.key[self.name.len() + 1..].to_owned()).collect()
    }

    /// The keys that are given and that no reader asked for.
    pub(crate) fn unread(&self) -> Vec<Setting> {
        let known = self.known();
        let unread = |key: &String| !known.contains(key) && self.given(key).is_some();
        self.given.iter().filter(|(key, _)| unread(key)).map(|(_, setting)| setting.clone()).collect()
    }

    /// Refuses a given key that no reader asked for. `elsewhere` maps a key to the full key of another section that may
    /// have been meant.
    pub(crate) fn check_all_read(
        &self,
        elsewhere: impl Fn(&str) -> Option<String>,
    ) -> Result<(), ConfigError> {
        let Some(setting) = self.unread().into_iter().next() else { return Ok(()) };
        let known = self.known();
        let key = setting.key.split_once('.').map_or("", |(_, key)| key);
        let near = || nearest(key, known.iter().map(String::as_str)).map(|near| self.full(near));
        let nearest = elsewhere(key).or_else(|| synonyms::meant(key).map(str::to_owned)).or_else(near);
        Err(ConfigError::UnknownKey { setting: Box::new(setting), nearest, known })
    }

    /// All keys: those asked for in the order of asking, then those that no reader has asked for yet.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let reads = self.reads();
        let unread = self.given.iter().filter(|(key, setting)| {
            !reads.set_aside.contains_key(*key) && !reads.asked.iter().any(|asked| asked.key == setting.key)
        });
        let unread = unread.map(|(_, setting)| {
            let Setting { key, value, origin, .. } = setting.clone();
            Entry { key, value: Some(value), origin, expected: None }
        });
        reads.asked.iter().cloned().chain(unread).collect()
    }

    /// Records that a reader asked for a key, with its value or default.
    pub(crate) fn record(&self, key: &str, expected: &str, value: Option<Value>, origin: Origin) {
        let asked = Entry { key: self.full(key), value, origin, expected: Some(expected.to_owned()) };
        let mut reads = self.reads();
        match reads.asked.iter_mut().find(|earlier| earlier.key == asked.key) {
            Some(earlier) => *earlier = asked,
            None => reads.asked.push(asked),
        }
    }

    /// Records the default of a key.
    pub(crate) fn record_default(&self, key: &str, default: Value) {
        self.reads().defaults.insert(key.to_owned(), default);
    }

    /// The key with the name of the section.
    pub(crate) fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.name)
    }

    /// A reader that panicked left complete records behind, so a poisoned lock is usable.
    fn reads(&self) -> MutexGuard<'_, Reads> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

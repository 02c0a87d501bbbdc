//! Keys that another key makes meaningless.
//!
//! Within one layer they are an error. A choice of a higher layer sets the keys of lower layers aside: with
//! `--set optimizer.name=adam` the `optimizer.momentum` of the file is void, as its `train.epochs` is with
//! `--set train.steps=50`. Keys that were set aside are reported, never silently dropped.

use crate::{
    error::ConfigError,
    ledger::{Aside, Ledger},
    origin::Layer,
    setting::Setting,
};

/// Keys that apply to some choices only, each with these choices.
pub(crate) type Owners = [(&'static str, &'static [&'static str])];

/// A rule about two keys, and the way out where it is broken.
pub(crate) struct Rule {
    /// The rule, as part of a sentence.
    pub(crate) says: &'static str,
    /// The way out, as a sentence.
    pub(crate) fix: &'static str,
}

impl Ledger {
    /// Refuses, or sets aside, the keys that do not apply to the choice that the key `chooser` makes.
    pub(crate) fn keep_applicable(&self, chooser: &str, owners: &Owners) -> Result<(), ConfigError> {
        let Some(choice) = self.setting(chooser) else { return Ok(()) };
        let chosen = choice.value.shown();
        let mut others = owners.iter().filter(|(_, owners)| !owners.contains(&chosen.as_str()));
        others.try_for_each(|(key, owners)| self.refuse_for(key, owners, &choice))
    }

    /// Refuses, or sets aside, a key that applies to `owners` only; `choice` is none of them.
    pub(crate) fn refuse_for(&self, key: &str, owners: &[&str], choice: &Setting) -> Result<(), ConfigError> {
        let Some(setting) = self.given(key) else { return Ok(()) };
        if setting.origin.layer() < choice.origin.layer() {
            self.set_aside(key, choice.clone(), Aside::OtherChoice);
            return Ok(());
        }
        let (setting, chooser) = (Box::new(setting), Box::new(choice.clone()));
        let owners = owners.iter().map(|owner| (*owner).to_owned()).collect();
        Err(ConfigError::DoesNotApply { setting, chooser, owners })
    }

    /// Sets aside the keys that a file gives for its own choice, where a higher layer chooses otherwise. `default` is the choice
    /// of a file that gives none. Keys in `shared` mean the same for every choice, and stay. So do typed keys: whoever types
    /// them knows the choice.
    pub(crate) fn set_others_aside(&self, chooser: &str, default: &str, shared: &[&str]) {
        let Some(choice) = self.given(chooser) else { return };
        let chosen = choice.value.shown();
        for (key, setting) in self.all_given() {
            let layer = setting.origin.layer();
            if layer > Layer::Text || layer >= choice.origin.layer() || shared.contains(&key.as_str()) {
                continue;
            }
            let of_layer = choice.as_of(layer).map_or_else(|| default.to_owned(), |of| of.value.shown());
            if of_layer != chosen {
                self.set_aside(key, choice.clone(), Aside::OtherChoice);
            }
        }
    }

    /// Sets aside the unread keys of layers below the one that gives `chooser`: the keys of the file's model, where
    /// `--set` names another model.
    pub(crate) fn set_unread_aside(&self, chooser: &str) {
        let Some(choice) = self.given(chooser) else { return };
        for setting in self.unread() {
            if setting.origin.layer() < choice.origin.layer()
                && let Some((_, key)) = setting.key.split_once('.')
            {
                self.set_aside(key, choice.clone(), Aside::OtherChoice);
            }
        }
    }

    /// Of keys that replace each other, keeps those of the highest layer that gives one.
    pub(crate) fn keep_highest(&self, keys: &[&str]) {
        let given: Vec<(&str, Setting)> =
            keys.iter().filter_map(|key| Some((*key, self.given(key)?))).collect();
        let Some((_, highest)) = given.iter().max_by_key(|(_, setting)| setting.origin.layer()) else {
            return;
        };
        for (key, setting) in &given {
            if setting.origin.layer() < highest.origin.layer() {
                self.set_aside(key, highest.clone(), Aside::Replaced);
            }
        }
    }

    /// Of keys that exclude each other, keeps the one of the highest layer; two of one layer are an error.
    pub(crate) fn keep_one(&self, keys: &[&str], rule: &Rule) -> Result<(), ConfigError> {
        self.keep_highest(keys);
        let mut given = keys.iter().filter_map(|key| self.given(key));
        match (given.next(), given.next()) {
            (Some(other), Some(setting)) => Err(clash(setting, other, rule)),
            _ => Ok(()),
        }
    }

    /// Sets `key` aside if its layer is below that of `other`, with whose value it clashes; otherwise it is an error.
    pub(crate) fn yield_to(&self, key: &str, other: &str, rule: &Rule) -> Result<(), ConfigError> {
        let (Some(setting), Some(other)) = (self.given(key), self.setting(other)) else { return Ok(()) };
        if setting.origin.layer() >= other.origin.layer() {
            return Err(clash(setting, other, rule));
        }
        self.set_aside(key, other, Aside::OtherChoice);
        Ok(())
    }
}

/// The error for two settings that exclude each other.
pub(crate) fn clash(setting: Setting, other: Setting, rule: &Rule) -> ConfigError {
    ConfigError::Clash { setting: Box::new(setting), other: Box::new(other), rule: rule.says, fix: rule.fix }
}

use std::{borrow::Cow, collections::BTreeMap, fmt::Write as _};

use crate::{
    config::Config,
    error::ConfigError,
    origin::Origin,
    parse::parse,
    retired,
    section_names::{SECTIONS, SPACE, TUNE},
    setting::{Difference, Entry, Idle, SetAside, Setting},
    value::Value,
};

/// The values of a configuration that oomph stored, by full key. Retired keys have their new names; nothing is
/// validated. Messages call the text `name`.
///
/// # Errors
/// A text that is not TOML.
pub fn values(name: &str, text: &str) -> Result<BTreeMap<String, Value>, ConfigError> {
    Ok(stored(name, text)?.into_iter().map(|(key, setting)| (key, setting.value)).collect())
}

/// The settings of a configuration that oomph stored, with the present names of their keys.
fn stored(name: &str, text: &str) -> Result<BTreeMap<String, Setting>, ConfigError> {
    let mut settings = parse(text, name, |line| Origin::Embedded { name: name.to_owned(), line })?.settings;
    retired::translate(&mut settings);
    Ok(settings)
}

/// How the keys of `[tune]` begin.
const OF_TUNE: &str = "tune.";

/// Origins are aligned up to this column; behind longer lines they follow after two spaces.
const MAX_COLUMN: usize = 48;

impl Config {
    /// Every key with its value and origin: by section, then in the order of reading. Unread keys of `[model]` and
    /// `[data]` come last in their section.
    pub fn resolved(&self) -> Vec<Entry> {
        self.sections.iter().flat_map(|section| section.ledger.entries()).collect()
    }

    /// The keys that choices in higher layers made void, such as the file's `optimizer.momentum` with
    /// `--set optimizer.name=adam`.
    pub fn set_aside(&self) -> Vec<SetAside> {
        self.sections.iter().flat_map(|section| section.ledger.void()).collect()
    }

    /// What a user should know of the keys that are set aside, a sentence for each choice: which keys are ignored, and the defaults
    /// that hold now. Keys that a higher layer replaces need no word.
    pub fn ignored(&self) -> Vec<String> {
        let resolved = self.resolved();
        let mut by_choice: BTreeMap<String, (Vec<String>, Vec<String>)> = BTreeMap::new();
        for SetAside { setting, by, .. } in self.set_aside().into_iter().filter(|aside| !aside.is_replaced) {
            let said = |value: &Value| format!("`{} = {value}`", setting.key);
            let (ignored, now) = by_choice.entry(by.mention()).or_default();
            ignored.push(format!("{} ({})", said(&setting.value), setting.origin));
            let entry = resolved.iter().find(|entry| entry.key == setting.key);
            now.extend(entry.and_then(|entry| entry.value.as_ref()).map(said));
        }
        let sentence = |(choice, (ignored, now)): (String, (Vec<String>, Vec<String>))| {
            let now = if now.is_empty() { String::new() } else { format!("; now {}", now.join(", ")) };
            let are = if ignored.len() == 1 { "is" } else { "are" };
            format!("{choice}, so {} {are} ignored{now}", ignored.join(", "))
        };
        by_choice.into_iter().map(sentence).collect()
    }

    /// The keys whose values have no effect beside the other settings, as far as their readers know by now: the data source
    /// and the task know once they are open.
    pub fn idle(&self) -> Vec<Idle> {
        self.sections.iter().flat_map(|section| section.ledger.idle()).collect()
    }

    /// The resolved configuration as TOML, which loads to the same values.
    pub fn to_toml(&self) -> String {
        self.write_toml(false)
    }

    /// The same with the origin of each value as a comment, and comments for the keys that are absent or set aside.
    pub fn to_annotated_toml(&self) -> String {
        self.write_toml(true)
    }

    /// The values that a source gives, as TOML: what [`to_toml`](Self::to_toml) has, less the defaults, less the keys that
    /// were set aside. A study stores this text: a default may follow from a choice that a trial makes, as that of
    /// `optimizer.lr` follows from `optimizer.name`.
    pub fn to_given_toml(&self) -> String {
        let mut toml = String::new();
        for (name, section) in SECTIONS.iter().zip(&self.sections) {
            let entries = section.ledger.entries();
            let given = entries.iter().filter(|entry| entry.origin != Origin::Default);
            let lines: Vec<_> = given.filter_map(|entry| line(name, entry)).collect();
            if !lines.is_empty() {
                let gap = if toml.is_empty() { "" } else { "\n" };
                let _ = writeln!(toml, "{gap}[{name}]\n{}", lines.join("\n")); // Writing to a string cannot fail.
            }
        }
        toml
    }

    /// The resolved configuration as JSON: `{"train.batch": {"value": 32, "origin": "default", "expected": "…"}, …}`.
    pub fn to_json(&self) -> serde_json::Value {
        // This cannot fail: integers have at most 64 bits, numbers are finite and keys are strings.
        let entry = |entry: Entry| (entry.key.clone(), serde_json::to_value(&entry).unwrap_or_default());
        serde_json::Value::Object(self.resolved().into_iter().map(entry).collect())
    }

    /// The keys that differ from the text of an earlier [`to_toml`](Self::to_toml). Retired keys in it count under their
    /// new names. `[tune]` does not count: it changes no training.
    ///
    /// # Errors
    /// A text that is not TOML.
    pub fn differences(&self, earlier_toml: &str) -> Result<Vec<Difference>, ConfigError> {
        let is_of_training = |key: &String| !key.starts_with(OF_TUNE);
        let mut earlier = stored("the earlier config", earlier_toml)?;
        earlier.retain(|key, _| is_of_training(key));
        let mut differences = Vec::new();
        for Entry { key, value: after, .. } in
            self.resolved().into_iter().filter(|entry| is_of_training(&entry.key))
        {
            let before = earlier.remove(&key).map(|setting| setting.value);
            let same = match (&before, &after) {
                (Some(before), Some(after)) => before.same(after),
                (None, None) => true,
                _ => false,
            };
            if !same {
                differences.push(Difference { key, before, after });
            }
        }
        let gone = earlier.into_values();
        differences.extend(gone.map(|was| Difference { key: was.key, before: Some(was.value), after: None }));
        Ok(differences)
    }

    fn write_toml(&self, annotated: bool) -> String {
        let mut toml = String::new();
        for (name, section) in SECTIONS.iter().zip(&self.sections) {
            let entries = section.ledger.entries();
            if *name == TUNE && entries.is_empty() {
                continue;
            }
            let lines: Vec<_> = entries.iter().map(|entry| (line(name, entry), entry)).collect();
            let width =
                |(line, _): &(Option<String>, _)| line.as_ref().map_or(0, |line| line.chars().count());
            let column = lines.iter().map(width).filter(|width| *width <= MAX_COLUMN).max().unwrap_or(0);
            let gap = if toml.is_empty() { "" } else { "\n" };
            let _ = writeln!(toml, "{gap}[{name}]"); // Writing to a string cannot fail.
            for (line, entry) in &lines {
                let _ = match line {
                    Some(line) if annotated => writeln!(toml, "{line:column$}  # {}", entry.origin),
                    Some(line) => writeln!(toml, "{line}"),
                    None if annotated => writeln!(toml, "# {}", absent(name, entry)),
                    None => Ok(()),
                };
            }
            for SetAside { setting, by, .. } in section.ledger.void().iter().filter(|_| annotated) {
                let key = bare(name, &setting.key);
                let _ = writeln!(toml, "# {key} of {} is set aside: {}", setting.origin, by.mention());
            }
            for Idle { setting, because } in section.ledger.idle().iter().filter(|_| annotated) {
                let _ = writeln!(toml, "# {} has no effect: {because}", bare(name, &setting.key));
            }
        }
        toml
    }
}

/// The line of a key with its value; `None` for a key that is absent.
fn line(section: &str, entry: &Entry) -> Option<String> {
    Some(format!("{} = {}", bare(section, &entry.key), entry.value.as_ref()?))
}

/// The comment for a key that is absent: its name and the values that it takes.
fn absent(section: &str, entry: &Entry) -> String {
    let key = bare(section, &entry.key);
    match &entry.expected {
        Some(expected) => format!("{key} is not set; it takes {expected}"),
        None => format!("{key} is not set"),
    }
}

/// The key without the name of its section. A key that is searched is in quotes, as users write it.
fn bare<'a>(section: &str, key: &'a str) -> Cow<'a, str> {
    if let Some(searched) = key.strip_prefix(SPACE).and_then(|key| key.strip_prefix('.')) {
        return format!("space.\"{searched}\"").into();
    }
    key.strip_prefix(section).and_then(|key| key.strip_prefix('.')).unwrap_or(key).into()
}

//! `[tune.space]`: the keys that a study searches.

use std::collections::{BTreeMap, BTreeSet};

use super::tune::{Sampler, Scheduler};
use crate::{
    error::ConfigError,
    nearest::nearest,
    origin::Origin,
    section::Section,
    section_names::{PARAMETER_KEYS, SECTIONS, SPACE, TUNE},
    setting::Setting,
    value::Value,
};

/// A key that a study searches.
#[derive(Clone, Debug, PartialEq)]
pub struct SpaceEntry {
    /// The full key, such as `optimizer.lr`.
    pub key: String,
    /// The values to search.
    pub domain: Domain,
    /// When it takes part; `None`: always.
    pub when: Option<When>,
    /// The origin of its parameter in `[tune.space]`.
    pub origin: Origin,
}

/// The condition of a parameter: another parameter has one of some choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct When {
    /// The key of the other parameter, whose domain is [`Domain::Choice`].
    pub key: String,
    /// Indices of its choices, in rising order.
    pub choices: Vec<usize>,
}

/// The values of a parameter. Both ends of a range are values too.
#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// Numbers.
    Float {
        /// The smallest.
        low: f64,
        /// The largest; above `low`.
        high: f64,
        /// The distance between neighbours; `None`: all numbers between the ends. From one end to the other it is a whole
        /// number of steps.
        step: Option<f64>,
        /// Whether their logarithm is searched evenly; then `low` is above 0 and there is no step.
        log: bool,
    },
    /// Integers.
    Integer {
        /// The smallest.
        low: i64,
        /// The largest; above `low`.
        high: i64,
        /// The distance between neighbours; at least 1. From one end to the other it is a whole number of steps.
        step: i64,
        /// Whether their logarithm is searched evenly; then `low` is at least 1 and `step` is 1.
        log: bool,
    },
    /// At least one value, each different.
    Choice(Vec<Value>),
}

impl SpaceEntry {
    /// The value of the configuration for a value of the search: the number itself, or the index of the choice. `None` if
    /// the domain does not have it.
    pub fn value(&self, searched: f64) -> Option<Value> {
        match &self.domain {
            Domain::Float { low, high, .. } => {
                (*low..=*high).contains(&searched).then_some(Value::Number(searched))
            }
            Domain::Integer { low, high, .. } => {
                let is_within = searched.fract() == 0.0 && (*low as f64..=*high as f64).contains(&searched);
                is_within.then_some(Value::Integer(searched as i128))
            }
            Domain::Choice(choices) => {
                let is_index = searched.fract() == 0.0 && searched >= 0.0;
                choices.get(searched as usize).filter(|_| is_index).cloned()
            }
        }
    }

    /// The value of the search for a value of the configuration: the inverse of [`value`](Self::value). `None` if the
    /// domain does not have it.
    pub fn searched(&self, value: &Value) -> Option<f64> {
        let searched = match (&self.domain, value) {
            (Domain::Choice(choices), value) => choices.iter().position(|choice| choice.same(value))? as f64,
            (_, Value::Integer(integer)) => *integer as f64,
            (_, Value::Number(number)) => *number,
            _ => return None,
        };
        self.value(searched).map(|_| searched)
    }

    /// The ends of a range, or all choices.
    pub(crate) fn extremes(&self) -> Vec<Value> {
        match &self.domain {
            Domain::Float { low, high, .. } => vec![Value::Number(*low), Value::Number(*high)],
            Domain::Integer { low, high, .. } => [*low, *high].map(|end| Value::Integer(end.into())).to_vec(),
            Domain::Choice(choices) => choices.clone(),
        }
    }
}

/// A key of `[tune.space]` as it is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parameter {
    /// The key that is searched.
    pub(crate) key: String,
    pub(crate) domain: Domain,
    pub(crate) condition: Option<Condition>,
    pub(crate) origin: Origin,
}

/// What `when` says: a key has one of some values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    pub(crate) key: String,
    pub(crate) values: Vec<Value>,
    /// As it is written.
    pub(crate) text: String,
}

impl Parameter {
    /// Reads all parameters of `[tune]`, in the order of their keys, and checks them against each other. `sections` are
    /// all of the configuration.
    pub(super) fn read_all(
        section: &Section,
        sections: &[Section],
        sampler: Sampler,
        scheduler: Scheduler,
    ) -> Result<Vec<Self>, ConfigError> {
        refuse_outside(section)?;
        let keys = section.ledger.all_given().keys().filter(|key| key.starts_with(OF_SPACE));
        let keys: Vec<_> = keys.cloned().collect();
        if let Some(key) = keys.get(MOST_PARAMETERS) {
            return Err(section.invalid(key, format!("at most {MOST_PARAMETERS} keys to search")));
        }
        if keys.is_empty() {
            section.ledger.record("space", IN_SPACE, None, Origin::Default);
        }
        let mut parameters = BTreeMap::new();
        for key in keys {
            let Some(setting) = section.ledger.given(&key) else { continue };
            let expected = "a list of choices, or a table such as `{ low = 1e-4, high = 0.1, log = true }`";
            section.ledger.record(&key, expected, Some(setting.value.clone()), setting.origin.clone());
            let searched = key[OF_SPACE.len()..].to_owned();
            check_key(&searched, &setting, sections, scheduler)?;
            let parameter = Self::read(&setting, searched, expected)?;
            if sampler == Sampler::Grid && matches!(parameter.domain, Domain::Float { step: None, .. }) {
                return Err(invalid(&setting, "a `step` or a list, as `tune.sampler` is `grid`"));
            }
            parameters.insert(parameter.key.clone(), (parameter, setting));
        }
        for (parameter, setting) in parameters.values() {
            check_condition(parameter, setting, &parameters)?;
        }
        Ok(parameters.into_values().map(|(parameter, _)| parameter).collect())
    }

    fn read(setting: &Setting, key: String, expected: &str) -> Result<Self, ConfigError> {
        let (domain, condition) = match &setting.value {
            Value::List(choices) => (choice(setting, choices)?, None),
            Value::Table(entries) => {
                let table = Entries { setting, entries };
                table.check_names()?;
                (table.domain()?, table.condition()?)
            }
            _ => {
                let setting = Box::new(setting.clone());
                return Err(ConfigError::WrongKind { setting, expected: expected.to_owned() });
            }
        };
        Ok(Self { key, domain, condition, origin: setting.origin.clone() })
    }
}

/// How the keys of parameters begin within the section.
const OF_SPACE: &str = "space.";

const IN_SPACE: &str =
    "the keys to search, such as `\"optimizer.lr\" = { low = 1e-4, high = 0.1, log = true }`";

/// No study learns anything of so many, and each is compared with all others.
const MOST_PARAMETERS: usize = 1000;

const MOST_CHOICES: usize = 1000;

/// Integers up to this one are exact as numbers, which samplers compute with.
const MOST_EXACT: i128 = 1 << 53;

fn invalid(setting: &Setting, expected: impl Into<String>) -> ConfigError {
    ConfigError::Invalid { setting: Box::new(setting.clone()), expected: expected.into() }
}

/// The error for a key of `[tune]`, or of a parameter, that is not known.
fn unknown(setting: &Setting, nearest: String) -> ConfigError {
    ConfigError::UnknownKey { setting: Box::new(setting.clone()), nearest: Some(nearest), known: Vec::new() }
}

/// Refuses a parameter that is in `[tune]` instead of `[tune.space]`.
fn refuse_outside(section: &Section) -> Result<(), ConfigError> {
    for (key, setting) in section.ledger.all_given().iter().filter(|(key, _)| !key.starts_with(OF_SPACE)) {
        let parts: Vec<_> = key.split('.').collect();
        if let [first, _, ..] = parts.as_slice()
            && SECTIONS.contains(first)
        {
            let is_of_table = |last: &&&str| PARAMETER_KEYS.contains(last) && parts.len() > 2;
            let searched = parts.len() - usize::from(parts.last().filter(is_of_table).is_some());
            let meant =
                format!("{SPACE}.{}", parts.iter().take(searched).copied().collect::<Vec<_>>().join("."));
            return Err(unknown(setting, meant));
        }
        if let [first, _, ..] = parts.as_slice()
            && nearest(first, ["space"]).is_some()
        {
            let setting = Setting { key: format!("{TUNE}.{first}"), ..setting.clone() };
            return Err(unknown(&setting, SPACE.to_owned()));
        }
    }
    match section.ledger.all_given().get("space") {
        Some(setting) => {
            let expected = IN_SPACE.to_owned();
            Err(ConfigError::WrongKind { setting: Box::new(setting.clone()), expected })
        }
        None => Ok(()),
    }
}

/// Refuses a key that cannot be one of the configuration, and one that makes no sense to search.
fn check_key(
    key: &str,
    setting: &Setting,
    sections: &[Section],
    scheduler: Scheduler,
) -> Result<(), ConfigError> {
    let Some((name, _)) = key.split_once('.') else {
        let mut known = sections
            .iter()
            .flat_map(|section| section.ledger.known().into_iter().map(|key| section.ledger.full(&key)));
        let meant =
            known.find(|full| full.split_once('.').is_some_and(|(name, bare)| name != TUNE && bare == key));
        return Err(match meant {
            Some(meant) => unknown(setting, format!("{SPACE}.{meant}")),
            None => invalid(setting, "a key with its section, such as `optimizer.lr`"),
        });
    };
    if !SECTIONS.contains(&name) {
        return Err(ConfigError::UnknownSection {
            name: name.to_owned(),
            place: setting.place().trim_end_matches(": ").to_owned(),
            known: SECTIONS.iter().map(|known| (*known).to_owned()).collect(),
        });
    }
    match not_searchable(key, name, scheduler) {
        Some(reason) => Err(ConfigError::NotSearchable {
            setting: Box::new(setting.clone()),
            key: key.to_owned(),
            reason,
        }),
        None => Ok(()),
    }
}

fn not_searchable(key: &str, section: &str, scheduler: Scheduler) -> Option<&'static str> {
    match (section, key) {
        (TUNE, _) => Some("it is a key of the study itself"),
        ("run", _) => {
            Some("a study gives each trial its run directory, and no key of `[run]` changes a result")
        }
        ("device", _) => Some("a study chooses the devices of each trial"),
        (_, "memory.limit") => Some("a study gives each trial its limit"),
        (_, "memory.on_oom") => Some("`tune.on_too_large` says what happens to a trial that is too large"),
        (_, "train.eval_every") => Some("trials are compared by evaluations at the same steps"),
        (_, "train.epochs" | "train.steps") if scheduler != Scheduler::None => {
            Some("the scheduler compares trials of one length; it needs `tune.scheduler = \"none\"`")
        }
        _ => None,
    }
}

/// A list of choices.
fn choice(setting: &Setting, choices: &[Value]) -> Result<Domain, ConfigError> {
    if choices.is_empty() {
        return Err(invalid(setting, "at least one choice"));
    }
    if choices.len() > MOST_CHOICES {
        return Err(invalid(setting, format!("at most {MOST_CHOICES} choices")));
    }
    let is_twice =
        |(index, choice): &(usize, &Value)| choices.iter().take(*index).any(|before| before.same(choice));
    match choices.iter().enumerate().find(is_twice) {
        Some((_, twice)) => {
            Err(invalid(setting, format!("each choice once; `{}` is there twice", twice.shown())))
        }
        None => Ok(Domain::Choice(choices.to_vec())),
    }
}

/// The table of a parameter.
struct Entries<'a> {
    setting: &'a Setting,
    entries: &'a [(String, Value)],
}

impl Entries<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        self.entries.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The entry as a setting of its own.
    fn entry(&self, name: &str, value: &Value) -> Setting {
        let key = format!("{}.{name}", self.setting.key);
        Setting::new(key, value.clone(), self.setting.origin.clone())
    }

    fn wrong_kind(&self, name: &str, value: &Value, expected: &str) -> ConfigError {
        let setting = Box::new(self.entry(name, value));
        ConfigError::WrongKind { setting, expected: expected.to_owned() }
    }

    fn check_names(&self) -> Result<(), ConfigError> {
        let unknown_name = self.entries.iter().find(|(name, _)| !PARAMETER_KEYS.contains(&name.as_str()));
        let Some((name, value)) = unknown_name else { return Ok(()) };
        Err(match nearest(name, PARAMETER_KEYS) {
            Some(meant) => unknown(&self.entry(name, value), format!("{}.{meant}", self.setting.key)),
            None => invalid(
                self.setting,
                "the keys `low`, `high`, `step`, `log` and `when`, or `choices` and `when`",
            ),
        })
    }

    fn domain(&self) -> Result<Domain, ConfigError> {
        if let Some(choices) = self.get("choices") {
            if self.entries.iter().any(|(name, _)| !["choices", "when"].contains(&name.as_str())) {
                return Err(invalid(self.setting, "`choices`, or `low` and `high`, not both"));
            }
            return match choices {
                Value::List(choices) => choice(self.setting, choices),
                other => Err(self.wrong_kind("choices", other, "a list")),
            };
        }
        let (Some(low), Some(high)) = (self.get("low"), self.get("high")) else {
            return Err(invalid(self.setting, "both `low` and `high`"));
        };
        let log = match self.get("log") {
            None => false,
            Some(Value::Boolean(log)) => *log,
            Some(other) => return Err(self.wrong_kind("log", other, "`true` or `false`")),
        };
        let step = self.get("step");
        match (low, high, step) {
            (Value::Integer(_), Value::Integer(_), None | Some(Value::Integer(_))) => {
                let step = step.map(|step| self.integer("step", step)).transpose()?;
                self.integers(self.integer("low", low)?, self.integer("high", high)?, step, log)
            }
            _ => {
                let step = step.map(|step| self.number("step", step)).transpose()?;
                self.numbers(self.number("low", low)?, self.number("high", high)?, step, log)
            }
        }
    }

    fn number(&self, name: &str, value: &Value) -> Result<f64, ConfigError> {
        match value {
            Value::Number(number) => Ok(*number),
            Value::Integer(integer) => Ok(*integer as f64),
            other => Err(self.wrong_kind(name, other, "a number")),
        }
    }

    fn integer(&self, name: &str, value: &Value) -> Result<i64, ConfigError> {
        match value {
            Value::Integer(integer) if integer.abs() <= MOST_EXACT => {
                i64::try_from(*integer).map_err(|_| self.wrong_kind(name, value, "an integer"))
            }
            other => Err(invalid(&self.entry(name, other), "an integer from -2^53 to 2^53, or a list")),
        }
    }

    fn integers(&self, low: i64, high: i64, step: Option<i64>, log: bool) -> Result<Domain, ConfigError> {
        let each = step.unwrap_or(1);
        self.check_range(low as f64, high as f64, step.map(|step| step as f64), log)?;
        // Both are at most 2^53, and the step is above 0.
        if (high - low) % each != 0 {
            return Err(self.off_the_steps((high - (high - low) % each).to_string()));
        }
        Ok(Domain::Integer { low, high, step: each, log })
    }

    fn numbers(&self, low: f64, high: f64, step: Option<f64>, log: bool) -> Result<Domain, ConfigError> {
        self.check_range(low, high, step, log)?;
        if let Some(step) = step {
            let steps = (high - low) / step;
            // 0.1 is not exact, so neither is a number of steps of 0.1.
            if (steps - steps.round()).abs() > 1e-8 * steps {
                return Err(self.off_the_steps(format!("{:?}", low + steps.floor() * step)));
            }
        }
        Ok(Domain::Float { low, high, step, log })
    }

    fn off_the_steps(&self, last: String) -> ConfigError {
        invalid(self.setting, format!("`high` to be a whole number of steps above `low`, such as `{last}`"))
    }

    fn check_range(&self, low: f64, high: f64, step: Option<f64>, log: bool) -> Result<(), ConfigError> {
        let expected = match step {
            _ if low >= high => "`low` to be less than `high`".to_owned(),
            Some(_) if log => "`step` or `log`, not both".to_owned(),
            _ if log && low <= 0.0 => "`low` to be greater than 0, as `log` is `true`".to_owned(),
            _ if !(high - low).is_finite() => "`high` nearer to `low`".to_owned(),
            Some(step) if step <= 0.0 => "`step` to be greater than 0".to_owned(),
            Some(step) if step > high - low => {
                format!("`step` to be at most {}, from `low` to `high`", high - low)
            }
            _ => return Ok(()),
        };
        Err(invalid(self.setting, expected))
    }

    fn condition(&self) -> Result<Option<Condition>, ConfigError> {
        match self.get("when") {
            None => Ok(None),
            Some(Value::String(text)) => match Condition::parse(text) {
                Some(condition) => Ok(Some(condition)),
                None => Err(invalid(&self.entry("when", &Value::from(text.as_str())), A_CONDITION)),
            },
            Some(other) => Err(self.wrong_kind("when", other, A_CONDITION)),
        }
    }
}

const A_CONDITION: &str = "a condition such as `optimizer.name = sgd` or `optimizer.name in [sgd, rmsprop]`";

impl Condition {
    /// Reads `optimizer.name = sgd` or `optimizer.name in [sgd, rmsprop]`. A word that is not TOML is a string.
    fn parse(text: &str) -> Option<Self> {
        let typed = |text: &str| match text.trim() {
            "" => None,
            text => Some(Value::of_text(text)),
        };
        let (key, values) = match text.split_once('=') {
            Some((key, value)) => (key, vec![typed(value)?]),
            None => {
                let (key, list) = text.split_once(" in ")?;
                let items = list.trim().strip_prefix('[')?.strip_suffix(']')?.split(',');
                (key, items.map(typed).collect::<Option<_>>()?)
            }
        };
        let key = key.trim();
        let is_key =
            key.contains('.') && !key.contains(|letter: char| letter.is_whitespace() || letter == '"');
        let is_plain = values.iter().all(|value| !matches!(value, Value::List(_) | Value::Table(_)));
        (is_key && is_plain).then(|| Self { key: key.to_owned(), values, text: text.trim().to_owned() })
    }
}

/// Checks a condition on another parameter: that it is a choice, that it has the values, and that it does not depend on
/// this parameter in turn.
fn check_condition(
    parameter: &Parameter,
    setting: &Setting,
    all: &BTreeMap<String, (Parameter, Setting)>,
) -> Result<(), ConfigError> {
    let Some(own) = &parameter.condition else { return Ok(()) };
    let when = |value: &str| {
        Setting::new(format!("{}.when", setting.key), Value::from(value), setting.origin.clone())
    };
    let mut seen = BTreeSet::from([parameter.key.as_str()]);
    let mut next = Some(own);
    while let Some(condition) = next {
        if !seen.insert(&condition.key) {
            let expected = format!("a condition that does not depend on `{}` in turn", condition.key);
            return Err(invalid(&when(&own.text), expected));
        }
        next = all.get(&condition.key).and_then(|(other, _)| other.condition.as_ref());
    }
    let Some((other, _)) = all.get(&own.key) else { return Ok(()) };
    let Domain::Choice(choices) = &other.domain else {
        let expected = format!("a condition on a list of choices; `{}` is a range", other.key);
        return Err(invalid(&when(&own.text), expected));
    };
    let is_no_choice = |value: &&Value| !choices.iter().any(|choice| choice.same(value));
    match own.values.iter().find(is_no_choice) {
        Some(value) => Err(ConfigError::NotAllowed {
            setting: Box::new(when(&value.shown())),
            allowed: choices.iter().map(Value::shown).collect(),
        }),
        None => Ok(()),
    }
}

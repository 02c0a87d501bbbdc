//! The configuration as a study sees it: its space, and the configurations of points.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    config::Config,
    error::ConfigError,
    interval::Interval,
    ledger::Ledger,
    nearest::nearest,
    origin::Origin,
    precedence::{Rule, clash},
    section::Section,
    section_names::{SECTIONS, SPACE, TUNE},
    sections::{
        space::{Condition, Domain, Parameter, SpaceEntry, When},
        tune::{MinLength, Parallel, Scheduler, Tune},
    },
    setting::Setting,
    value::Value,
};

impl Config {
    /// The keys that a study of this configuration searches, in the order of their names. Conditions on keys that are not
    /// searched are decided: a parameter whose condition does not hold is left out, and [`idle`](Self::idle) has it.
    ///
    /// Call it after the readers of `[model]` and `[data]`, so that conditions can be on defaults of theirs.
    /// [`check_space`](Self::check_space) tries the values too.
    ///
    /// ```
    /// use oomph_config::{Config, Value};
    ///
    /// let config = Config::from_toml(
    ///     "my.toml",
    ///     "[tune.space]\n'optimizer.lr' = { low = 1e-4, high = 0.1, log = true }\n'train.batch' = [16, 32]",
    /// )?;
    /// let space = config.space()?;
    /// assert_eq!(space[1].key, "train.batch");
    /// let trial = config.at_point(&[("optimizer.lr", Value::from(0.01)), ("train.batch", Value::from(16usize))])?;
    /// assert_eq!((trial.optimizer.lr, trial.train.batch), (0.01, 16));
    /// assert!(trial.tune.is_none());
    /// # Ok::<(), oomph_config::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// No key is searched, a key is searched and typed on the command line too, a condition is on an unknown key, or the
    /// study contradicts the length of a training or its evaluations.
    pub fn space(&self) -> Result<Vec<SpaceEntry>, ConfigError> {
        let missing = || ConfigError::Missing {
            key: SPACE.to_owned(),
            expected: "at least one key to search, such as `optimizer.lr`".to_owned(),
        };
        let tune = self.tune.as_ref().filter(|tune| !tune.space.is_empty()).ok_or_else(missing)?;
        let section = section_of(self, TUNE);
        check_study(self, tune, section)?;
        let mut left_out: BTreeMap<String, String> = BTreeMap::new();
        for parameter in &tune.space {
            if let Some(condition) = parameter.condition.as_ref()
                && !tune.space.iter().any(|other| other.key == condition.key)
                && !holds(self, parameter, condition)?
            {
                let because = format!("its condition `{}` does not hold", condition.text);
                left_out.insert(parameter.key.clone(), because);
            }
        }
        leave_out_dependents(&tune.space, &mut left_out);
        for (key, because) in &left_out {
            section.has_no_effect(&format!("space.{key}"), because.clone());
        }
        let kept = tune.space.iter().filter(|parameter| !left_out.contains_key(&parameter.key));
        let space: Vec<_> = kept.map(|parameter| entry(parameter, &tune.space)).collect();
        match left_out.keys().next() {
            Some(key) if space.is_empty() => {
                Err(section
                    .invalid(&format!("space.{key}"), "a condition that holds; no other key is searched"))
            }
            _ => Ok(space),
        }
    }

    /// The configuration of a point of the space, as if the last `--set` had given its values: choices set keys of lower
    /// layers aside, and all checks of [`load`](Self::load) hold. It has no `[tune]`. `[model]` and `[data]` have their
    /// values too; their readers read them anew.
    ///
    /// The point may have other keys than the space, as one that a user enqueues.
    ///
    /// # Errors
    /// A value that the configuration refuses. The message names the parameter's line in `[tune.space]`.
    pub fn at_point(&self, point: &[(&str, Value)]) -> Result<Self, ConfigError> {
        let space = self.tune.as_ref().map_or(&[][..], |tune| &tune.space);
        let mut given: BTreeMap<&str, BTreeMap<String, Setting>> = BTreeMap::new();
        for (full, value) in point {
            let parameter = space.iter().find(|parameter| parameter.key == *full);
            let origin = parameter.map_or(Origin::Change, |parameter| Origin::Space {
                key: parameter.key.clone(),
                parameter: Box::new(parameter.origin.clone()),
            });
            let setting = Setting::new(*full, value.clone(), origin);
            match full.split_once('.') {
                Some((name, key)) if name != TUNE && SECTIONS.contains(&name) => {
                    given.entry(name).or_default().insert(key.to_owned(), setting);
                }
                _ => {
                    let (setting, known) = (Box::new(setting), Vec::new());
                    return Err(ConfigError::UnknownKey { setting, nearest: None, known });
                }
            }
        }
        let sections = self.sections.each_ref().map(|section| {
            let mut settings = match section.name() {
                TUNE => BTreeMap::new(),
                _ => section.ledger.all_given().clone(),
            };
            for (key, setting) in given.remove(section.name()).unwrap_or_default() {
                setting.stack_on(&mut settings, &key);
            }
            Section::new(section.name(), settings, section.ledger.assumed.is_stored)
        });
        let refused = |error| of_point(error, space);
        let mut config = Self::of_sections(self.name().to_owned(), sections).map_err(refused)?;
        config.device = self.device.clone();
        Ok(config)
    }

    /// The configuration without `[tune]`. All else is shared.
    pub fn without_tune(&self) -> Self {
        let mut without = self.clone();
        without.tune = None;
        for section in without.sections.iter_mut().filter(|section| section.name() == TUNE) {
            *section = Section::new(TUNE, BTreeMap::new(), false);
        }
        without
    }
}

/// The error with a way out that fits a space.
fn of_point(error: ConfigError, space: &[Parameter]) -> ConfigError {
    let fix = match &error {
        ConfigError::DoesNotApply { setting, chooser, owners } if setting.origin.is_of_space() => {
            let choices = space.iter().find(|other| other.key == chooser.key).map(|other| &other.domain);
            let is_choice = |owner: &&String| match choices {
                Some(Domain::Choice(choices)) => choices.iter().any(|choice| choice.shown() == **owner),
                _ => false,
            };
            let owners: Vec<_> = owners.iter().filter(is_choice).cloned().collect();
            let (key, chooser) = (&setting.key, &chooser.key);
            match owners.as_slice() {
                [] => format!("remove `{SPACE}.{key}` or change `{chooser}`"),
                owners => format!("add `when = \"{chooser} in [{}]\"` to `{SPACE}.{key}`", owners.join(", ")),
            }
        }
        ConfigError::Missing { key, .. } => {
            format!("add `{SPACE}.{key}` with a `when` for the choice that needs it")
        }
        _ => return error,
    };
    ConfigError::AtPoint { error: Box::new(error), fix }
}

/// The section of this name.
fn section_of<'a>(config: &'a Config, name: &str) -> &'a Section {
    // Callers know the name.
    config.sections.iter().find(|section| section.name() == name).unwrap_or(&config.model)
}

/// Checks the study against the rest of the configuration.
fn check_study(config: &Config, tune: &Tune, section: &Section) -> Result<(), ConfigError> {
    let ledger = |name: &str| &section_of(config, name).ledger;
    if config.train.eval_every == Interval::Never
        && tune.metric.needs_evaluation()
        && let (Some(metric), Some(eval_every)) =
            (section.ledger.setting("metric"), ledger("train").setting("eval_every"))
    {
        return Err(clash(metric, eval_every, &METRIC_NEEDS_EVALUATION));
    }
    if tune.deterministic
        && tune.parallel == Parallel::Auto
        && let (Some(deterministic), Some(parallel)) =
            (section.ledger.setting("deterministic"), section.ledger.setting("parallel"))
    {
        return Err(clash(deterministic, parallel, &REPEATS_WITH_A_NUMBER));
    }
    let length = config.train.length;
    let (own, whole) = match tune.min_length {
        MinLength::Epochs(least) if length.epochs.is_some_and(|epochs| epochs < least) => {
            ("min_epochs", "epochs")
        }
        MinLength::Steps(least) if length.steps.is_some_and(|steps| steps < least) => ("min_steps", "steps"),
        _ => ("", ""),
    };
    if tune.scheduler != Scheduler::None
        && let (Some(own), Some(whole)) = (section.ledger.setting(own), ledger("train").setting(whole))
    {
        return Err(clash(own, whole, &WITHIN_THE_TRAINING));
    }
    for Parameter { key, .. } in &tune.space {
        if let Some((name, bare)) = key.split_once('.')
            && let Some(typed) = ledger(name).all_given().get(bare).filter(|it| it.origin.is_typed())
            && let Some(parameter) = section.ledger.setting(&format!("space.{key}"))
        {
            return Err(clash(typed.clone(), parameter, &SEARCHED_AND_TYPED));
        }
    }
    Ok(())
}

const METRIC_NEEDS_EVALUATION: Rule = Rule {
    says: "evaluations measure it",
    fix: "set `train.eval_every` to an interval such as `1 epoch`, or choose another `tune.metric`",
};
const REPEATS_WITH_A_NUMBER: Rule = Rule {
    says: "what trials see depends on how many train at the same time",
    fix: "set `tune.parallel` to a number, such as 2",
};
const WITHIN_THE_TRAINING: Rule = Rule {
    says: "trials are first compared within their length",
    fix: "lower it, or set `tune.scheduler` to `none`",
};
const SEARCHED_AND_TYPED: Rule = Rule {
    says: "the study searches this key",
    fix: "remove it, or give the parameter a list of this one choice",
};

/// Whether a condition on a key that is not searched holds.
fn holds(config: &Config, parameter: &Parameter, condition: &Condition) -> Result<bool, ConfigError> {
    let unknown = |near: Option<String>| ConfigError::UnknownKey {
        setting: Box::new(Setting::new(
            condition.key.clone(),
            Value::from(condition.text.as_str()),
            Origin::Space {
                key: format!("{}.when", parameter.key),
                parameter: Box::new(parameter.origin.clone()),
            },
        )),
        nearest: near,
        known: Vec::new(),
    };
    let (name, key) = condition.key.split_once('.').unwrap_or_default();
    let Some(section) = config.sections.iter().find(|section| section.name() == name && name != TUNE) else {
        let near = nearest(name, SECTIONS.iter().copied().filter(|name| *name != TUNE));
        return Err(unknown(near.map(|near| format!("{near}.{key}"))));
    };
    let ledger: &Ledger = &section.ledger;
    match ledger.setting(key) {
        Some(setting) => Ok(condition.values.iter().any(|value| value.same(&setting.value))),
        None if ledger.known().iter().any(|known| known == key) => Ok(false),
        None => {
            let known = ledger.known();
            Err(unknown(nearest(key, known.iter().map(String::as_str)).map(|near| ledger.full(near))))
        }
    }
}

/// Leaves out the parameters that depend on others that are left out.
fn leave_out_dependents(space: &[Parameter], left_out: &mut BTreeMap<String, String>) {
    loop {
        let dependent = |parameter: &&Parameter| {
            let depends = |condition: &Condition| left_out.contains_key(&condition.key);
            !left_out.contains_key(&parameter.key) && parameter.condition.as_ref().is_some_and(depends)
        };
        let Some(parameter) = space.iter().find(dependent) else { return };
        let on = parameter.condition.as_ref().map_or("", |condition| &condition.key);
        left_out.insert(parameter.key.clone(), format!("it depends on `{SPACE}.{on}`, which has no effect"));
    }
}

/// The parameter with its condition as indices of choices.
fn entry(parameter: &Parameter, space: &[Parameter]) -> SpaceEntry {
    let when = parameter.condition.as_ref().and_then(|condition| {
        let other = space.iter().find(|other| other.key == condition.key)?;
        let Domain::Choice(choices) = &other.domain else { return None };
        let index = |value: &Value| choices.iter().position(|choice| choice.same(value));
        let indices: BTreeSet<_> = condition.values.iter().filter_map(index).collect();
        Some(When { key: other.key.clone(), choices: indices.into_iter().collect() })
    });
    let Parameter { key, domain, origin, .. } = parameter.clone();
    SpaceEntry { key, domain, when, origin }
}

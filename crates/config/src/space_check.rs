//! Tries the values of a space before any trial runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
};

use crate::{
    config::Config,
    error::ConfigError,
    sections::space::{Domain, SpaceEntry, When},
    value::Value,
};

/// Keys that decide which other keys apply.
const CHOOSERS: [&str; 4] = ["model.name", "data.source", "optimizer.name", "schedule.name"];

/// So many combinations of choices are tried; of more, each choice is tried with one choice of the others.
const MOST_COMBINATIONS: usize = 64;

impl Config {
    /// [`space`](Self::space), with values tried: both ends of every range and every choice, in each combination of the
    /// choices that conditions and other keys depend on. `read` is given the configuration of each point that is tried; it
    /// reads `[model]` and `[data]`, and calls [`check_all_read`](Self::check_all_read).
    ///
    /// Every point that is tried could be a trial. A value is refused if it is refused beside the first values of the other
    /// parameters, beside the last ones, and beside both with one other value of one of them. So a value that only some
    /// companions allow is allowed here.
    ///
    /// # Errors
    /// The first error of `space`, of [`at_point`](Self::at_point), or of `read`.
    pub fn check_space<E: From<ConfigError> + Display>(
        &self,
        mut read: impl FnMut(&Self) -> Result<(), E>,
    ) -> Result<Vec<SpaceEntry>, E> {
        let space = self.space()?;
        let mut check = |point: &Assigned<'_>| {
            let point: Vec<_> = point.iter().map(|(key, value)| (*key, value.clone())).collect();
            read(&self.at_point(&point)?)
        };
        for combination in combinations(&space) {
            let mut tried = BTreeSet::new();
            for entry in space.iter().filter(|entry| is_active(entry, &space, &combination)) {
                let is_chosen = combination.contains_key(entry.key.as_str());
                let values = if is_chosen { Vec::new() } else { entry.extremes() };
                for value in values {
                    try_value(&space, &combination, Some((entry, value)), &mut check)?;
                    tried.insert(&entry.key);
                }
            }
            if tried.is_empty() {
                try_value(&space, &combination, None, &mut check)?;
            }
        }
        Ok(space)
    }
}

/// The values of a point.
type Assigned<'a> = BTreeMap<&'a str, Value>;

/// An index for each parameter that others depend on.
type Combination<'a> = BTreeMap<&'a str, usize>;

/// Refuses a value that the configuration refuses beside all companions that are tried: the first values of the other
/// parameters, the last ones, and both with one other value of one of them.
fn try_value<'a, E: Display>(
    space: &'a [SpaceEntry],
    combination: &Combination<'a>,
    tried: Option<(&'a SpaceEntry, Value)>,
    check: &mut impl FnMut(&Assigned<'a>) -> Result<(), E>,
) -> Result<(), E> {
    let active: Vec<_> = space.iter().filter(|entry| is_active(entry, space, combination)).collect();
    let point = |values: fn(&[Value]) -> Option<&Value>| {
        let mut point = Assigned::new();
        for entry in &active {
            let extremes = entry.extremes();
            let chosen = combination.get(entry.key.as_str()).and_then(|index| extremes.get(*index));
            if let Some(value) = chosen.or_else(|| values(&extremes)) {
                point.insert(&entry.key, value.clone());
            }
        }
        if let Some((entry, value)) = &tried {
            point.insert(&entry.key, value.clone());
        }
        point
    };
    let key = tried.as_ref().map_or("", |(entry, _)| &entry.key);
    let quoted = format!("`{key}`");
    let (first, last) = (point(<[Value]>::first), point(<[Value]>::last));
    let Err(mut refused) = check(&first) else { return Ok(()) };
    let others =
        active.iter().filter(|entry| entry.key != key && !combination.contains_key(entry.key.as_str()));
    let variants = others.flat_map(|other| {
        let both = [&first, &last].into_iter();
        both.flat_map(move |point| {
            other.extremes().into_iter().map(move |value| varied(point, &other.key, value))
        })
    });
    for point in std::iter::once(last.clone()).chain(variants) {
        match check(&point) {
            Ok(()) => return Ok(()),
            // The error that is about this value, if there is one.
            Err(other) if !refused.to_string().contains(&quoted) => refused = other,
            Err(_) => {}
        }
    }
    Err(refused)
}

fn varied<'a>(point: &Assigned<'a>, key: &'a str, value: Value) -> Assigned<'a> {
    let mut point = point.clone();
    point.insert(key, value);
    point
}

/// Whether a parameter takes part.
fn is_active(entry: &SpaceEntry, space: &[SpaceEntry], combination: &Combination<'_>) -> bool {
    let Some(When { key, choices }) = &entry.when else { return true };
    let chosen = combination.get(key.as_str()).is_some_and(|index| choices.contains(index));
    let parent = space.iter().find(|other| other.key == *key);
    // Conditions have no cycle, so this ends.
    chosen && parent.is_some_and(|parent| is_active(parent, space, combination))
}

/// The combinations of the choices that conditions and other keys depend on; each has the parameters that take part.
fn combinations(space: &[SpaceEntry]) -> BTreeSet<Combination<'_>> {
    let is_asked =
        |key: &str| space.iter().any(|entry| entry.when.as_ref().is_some_and(|when| when.key == key));
    let mut choosers = Vec::new();
    for entry in space.iter().filter(|entry| CHOOSERS.contains(&entry.key.as_str()) || is_asked(&entry.key)) {
        if let Domain::Choice(choices) = &entry.domain {
            choosers.push((entry, choices.len()));
        }
    }
    let number = choosers.iter().fold(1usize, |number, (_, choices)| number.saturating_mul(*choices));
    let mut all =
        vec![choosers.iter().map(|(entry, _)| (entry.key.as_str(), 0)).collect::<Combination<'_>>()];
    for (entry, choices) in choosers {
        if number <= MOST_COMBINATIONS {
            all = all.iter().flat_map(|combination| (0..choices).map(with(entry, combination))).collect();
        } else {
            let mut first = all.first().cloned().unwrap_or_default();
            reach(entry, space, &mut first);
            all.extend((0..choices).map(with(entry, &first)));
        }
    }
    for combination in &mut all {
        let whole = combination.clone();
        let takes_part = |key: &str| {
            space.iter().find(|entry| entry.key == key).is_some_and(|entry| is_active(entry, space, &whole))
        };
        combination.retain(|key, _| takes_part(key));
    }
    all.into_iter().collect()
}

/// The combination with another choice of one parameter.
fn with<'a>(entry: &'a SpaceEntry, combination: &Combination<'a>) -> impl Fn(usize) -> Combination<'a> {
    let combination = combination.clone();
    move |index| {
        let mut other = combination.clone();
        other.insert(&entry.key, index);
        other
    }
}

/// Chooses such that the parameter takes part.
fn reach<'a>(entry: &'a SpaceEntry, space: &'a [SpaceEntry], combination: &mut Combination<'a>) {
    let mut next = entry.when.as_ref();
    // Conditions have no cycle, so this ends.
    while let Some(When { key, choices }) = next {
        if let Some(choice) = choices.first() {
            combination.insert(key, *choice);
        }
        next = space.iter().find(|other| other.key == *key).and_then(|other| other.when.as_ref());
    }
}

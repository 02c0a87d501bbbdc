//! The parameters of a search and the values that they have.

mod check;
mod domain;
mod grid;

use std::collections::BTreeMap;

pub use domain::{Choice, Domain};

use crate::SearchError;

/// The parameters of a search, in the order of their names.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    parameters: Vec<Parameter>,
    /// The indices of all parameters, those that others depend on before the others.
    parents_first: Vec<usize>,
}

/// A parameter of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name, such as `optimizer.lr`.
    pub name: String,
    /// Its values.
    pub domain: Domain,
    /// When it takes part; `None`: always.
    pub when: Option<When>,
}

/// The condition of a parameter: another parameter, of the domain [`Domain::Choice`], has one of some choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct When {
    /// The name of the other parameter.
    pub parameter: String,
    /// Indices of its choices.
    pub choices: Vec<usize>,
}

/// One value for each active parameter, by name: the number itself, or the index of the choice.
pub type Point = BTreeMap<String, f64>;

impl Space {
    /// The space of `parameters`, sorted by name.
    ///
    /// # Errors
    ///
    /// If there are no parameters, names or choices are equal, a range is empty, infinite, or does not fit to its step or
    /// logarithm, or a condition names no choice of another parameter, or leads back to its own parameter.
    pub fn new(mut parameters: Vec<Parameter>) -> Result<Self, SearchError> {
        parameters.sort_by(|left, right| left.name.cmp(&right.name));
        // The index of a choice is taken for its meaning: an order makes equal conditions equal.
        for when in parameters.iter_mut().filter_map(|parameter| parameter.when.as_mut()) {
            when.choices.sort_unstable();
            when.choices.dedup();
        }
        check::parameters(&parameters)?;
        let parents_first = check::parents_first(&parameters)?;
        Ok(Self { parameters, parents_first })
    }

    /// All parameters, by name.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The parameter of a name.
    pub fn get(&self, name: &str) -> Option<&Parameter> {
        let index = self.parameters.binary_search_by(|parameter| (*parameter.name).cmp(name)).ok()?;
        self.parameters.get(index)
    }

    /// The parameters that take part in `point`: those without a condition, and those whose condition it meets.
    pub fn active<'a>(&'a self, point: &Point) -> Vec<&'a Parameter> {
        let mut known = Point::new();
        let mut active = Vec::new();
        for parameter in self.parents_first() {
            if parameter.is_met(&known) {
                active.push(parameter);
                known.extend(point.get(&parameter.name).map(|value| (parameter.name.clone(), *value)));
            }
        }
        active.sort_by(|left, right| left.name.cmp(&right.name));
        active
    }

    /// The point whose values `value` chooses. It is asked for each active parameter, after those that it depends on.
    pub fn fill(&self, mut value: impl FnMut(&Parameter) -> f64) -> Point {
        let mut point = Point::new();
        for parameter in self.parents_first() {
            if parameter.is_met(&point) {
                point.insert(parameter.name.clone(), value(parameter));
            }
        }
        point
    }

    /// Whether `point` has exactly one value for each of its active parameters.
    ///
    /// # Errors
    ///
    /// If a value is missing, too much, or not in its domain.
    pub fn check(&self, point: &Point) -> Result<(), SearchError> {
        let active = self.active(point);
        for parameter in &active {
            let name = || parameter.name.clone();
            let value =
                *point.get(&parameter.name).ok_or_else(|| SearchError::MissingValue { name: name() })?;
            if !parameter.domain.contains(value) {
                return Err(SearchError::ValueOutside { name: name(), value });
            }
        }
        match point.keys().find(|name| active.iter().all(|parameter| parameter.name != **name)) {
            Some(name) => Err(SearchError::ExtraValue { name: name.clone() }),
            None => Ok(()),
        }
    }

    /// The parameters that are always active together: those of equal conditions. Groups without a condition come first, then
    /// each after the group that it depends on.
    pub fn groups(&self) -> Vec<Vec<&Parameter>> {
        let mut groups: Vec<Vec<&Parameter>> = Vec::new();
        for parameter in self.parents_first() {
            match groups.iter_mut().find(|group| group.iter().all(|other| other.when == parameter.when)) {
                Some(group) => group.push(parameter),
                None => groups.push(vec![parameter]),
            }
        }
        groups.iter_mut().for_each(|group| group.sort_by(|left, right| left.name.cmp(&right.name)));
        groups
    }

    fn parents_first(&self) -> impl Iterator<Item = &Parameter> {
        self.parents_first.iter().filter_map(|index| self.parameters.get(*index))
    }
}

impl Parameter {
    /// A parameter that always takes part.
    pub fn new(name: impl Into<String>, domain: Domain) -> Self {
        Self { name: name.into(), domain, when: None }
    }

    /// Whether `point`, which has the parameters that this one depends on, meets its condition.
    pub(crate) fn is_met(&self, point: &Point) -> bool {
        self.when.as_ref().is_none_or(|when| {
            // The index of a choice: small, and an integer.
            point.get(&when.parameter).is_some_and(|value| when.choices.contains(&(*value as usize)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(words: &[&str]) -> Domain {
        Domain::Choice(words.iter().map(|word| Choice::Text((*word).to_owned())).collect())
    }

    fn float(low: f64, high: f64, step: Option<f64>, log: bool) -> Domain {
        Domain::Float { low, high, step, log }
    }

    fn when(name: &str, domain: Domain, on: &str, choices: &[usize]) -> Parameter {
        let when = Some(When { parameter: on.to_owned(), choices: choices.to_vec() });
        Parameter { when, ..Parameter::new(name, domain) }
    }

    fn optimizers() -> Space {
        Space::new(vec![
            Parameter::new("name", choices(&["sgd", "adam", "lamb"])),
            when("momentum", float(0.0, 0.9, Some(0.3), false), "name", &[0]),
            when("nesterov", choices(&["no", "yes"]), "name", &[0]),
            when("beta", float(0.5, 1.0, Some(0.25), false), "name", &[2, 1, 1]),
            when("damping", float(0.0, 1.0, None, false), "nesterov", &[0]),
        ])
        .unwrap()
    }

    fn point(values: &[(&str, f64)]) -> Point {
        values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn only_parameters_whose_condition_is_met_are_active() {
        let names = |values: &[(&str, f64)]| -> Vec<String> {
            optimizers().active(&point(values)).iter().map(|it| it.name.clone()).collect()
        };
        assert_eq!(names(&[("name", 0.0), ("nesterov", 0.0)]), ["damping", "momentum", "name", "nesterov"]);
        assert_eq!(names(&[("name", 0.0), ("nesterov", 1.0)]), ["momentum", "name", "nesterov"]);
        // `nesterov` takes no part, so its value activates nothing.
        assert_eq!(names(&[("name", 1.0), ("nesterov", 0.0)]), ["beta", "name"]);
    }

    #[test]
    fn points_with_too_few_too_many_or_other_values_are_refused() {
        let space = optimizers();
        let check = |values: &[(&str, f64)]| space.check(&point(values));
        assert_eq!(check(&[("name", 1.0), ("beta", 0.75)]), Ok(()));
        assert_eq!(check(&[("name", 1.0)]), Err(SearchError::MissingValue { name: "beta".to_owned() }));
        let extra = SearchError::ExtraValue { name: "momentum".to_owned() };
        assert_eq!(check(&[("name", 1.0), ("beta", 0.75), ("momentum", 0.0)]), Err(extra));
        let outside = SearchError::ValueOutside { name: "beta".to_owned(), value: 0.8 };
        assert_eq!(check(&[("name", 1.0), ("beta", 0.8)]), Err(outside));
    }

    #[test]
    fn parameters_of_one_condition_are_a_group() {
        let space = optimizers();
        let names: Vec<Vec<_>> =
            space.groups().iter().map(|group| group.iter().map(|it| &*it.name).collect()).collect();
        assert_eq!(names, [vec!["name"], vec!["beta"], vec!["momentum", "nesterov"], vec!["damping"]]);
    }

    #[test]
    fn mistakes_in_a_space_are_named() {
        let refused = |parameters: Vec<Parameter>| Space::new(parameters).unwrap_err().to_string();
        let one = |domain| refused(vec![Parameter::new("a", domain)]);
        let integer = |low, high, step, log| one(Domain::Integer { low, high, step, log });
        let ends = |low, high, step, log| one(float(low, high, step, log));
        let ab = || Parameter::new("b", choices(&["x", "y"]));
        let range = || float(0.0, 1.0, None, false);
        for (message, expected) in [
            (refused(vec![]), "the search space has no parameters"),
            (refused(vec![ab(), ab()]), "the parameter `b` is there twice"),
            (ends(0.0, f64::INFINITY, None, false), "`a` has the bounds 0 and inf; expected finite numbers"),
            (ends(2.0, 1.0, None, false), "`a` has `low` = 2 above `high` = 1"),
            (integer(2, 1, 1, false), "`a` has `low` = 2 above `high` = 1"),
            (ends(0.0, 1.0, None, true), "`a` has `log = true` and `low` = 0; expected a `low` above 0"),
            (integer(0, 1, 1, true), "`a` has `log = true` and `low` = 0; expected a `low` above 0"),
            (ends(1.0, 2.0, Some(1.0), true), "`a` has `log = true` and a step of 1; expected one of them"),
            (integer(1, 5, 2, true), "`a` has `log = true` and a step of 2; expected one of them"),
            (ends(0.0, 1.0, Some(0.0), false), "`a` has a step of 0; expected a step above 0"),
            (integer(0, 1, -1, false), "`a` has a step of -1; expected a step above 0"),
            (
                ends(0.0, 1.0, Some(0.375), false),
                "`a` has a step of 0.375, which from 0 does not lead to 1; expected `high` = 0.75",
            ),
            (
                integer(0, 10, 4, false),
                "`a` has a step of 4, which from 0 does not lead to 10; expected `high` = 8",
            ),
            (
                integer(0, i64::MAX, 1, false),
                "`a` has the bound 9223372036854775807; expected integers of at most 2^53",
            ),
            (one(choices(&[])), "`a` has no choices; expected at least one"),
            (one(choices(&["x", "x"])), "`a` has the choice `x` twice"),
            (refused(vec![ab(), when("a", range(), "c", &[0])]), "`a` depends on `c`, which is not searched"),
            (
                refused(vec![Parameter::new("b", range()), when("a", range(), "b", &[0])]),
                "`a` depends on `b`, which is a range; expected a list of choices",
            ),
            (
                refused(vec![ab(), when("a", range(), "b", &[1, 2])]),
                "`a` depends on the choices [1, 2] of `b`; expected at least one of 0 to 1",
            ),
            (
                refused(vec![when("a", choices(&["x"]), "b", &[0]), when("b", choices(&["x"]), "a", &[0])]),
                "`a` depends on itself",
            ),
        ] {
            assert_eq!(message, expected);
        }
    }

    #[test]
    fn numbers_are_moved_to_the_nearest_value() {
        let stepped = float(0.0, 0.9, Some(0.3), false);
        assert_eq!([-1.0, 0.4, 0.5, 2.0].map(|it| stepped.nearest(it)), [0.0, 0.3, 0.6, 0.9]);
        let integers = Domain::Integer { low: 8, high: 64, step: 8, log: false };
        assert_eq!([11.0, 13.0, 100.0, f64::NAN].map(|it| integers.nearest(it)), [8.0, 16.0, 64.0, 8.0]);
        assert!(integers.contains(16.0) && !integers.contains(17.0) && !integers.contains(72.0));
        assert!(stepped.contains(0.1 + 0.2) && !stepped.contains(0.31));
    }

    #[test]
    fn quantiles_are_spread_over_the_values() {
        let integers = Domain::Integer { low: 1, high: 4, step: 1, log: false };
        assert_eq!([0.0, 0.24, 0.26, 0.99].map(|it| integers.quantile(it)), [1.0, 1.0, 2.0, 4.0]);
        let logs = float(1e-4, 1.0, None, true);
        assert!((logs.quantile(0.5) - 1e-2).abs() < 1e-9 && (logs.quantile(0.0) - 1e-4).abs() < 1e-12);
        let log_integers = Domain::Integer { low: 1, high: 1000, step: 1, log: true };
        assert_eq!([0.0, 0.999_999].map(|it| log_integers.quantile(it)), [1.0, 1000.0]);
    }
}

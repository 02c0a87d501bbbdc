use std::collections::BTreeMap;

/// The parameters of a search, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Space {
    parameters: Vec<Parameter>,
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

/// The values of a parameter. Both ends are values too.
#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// Numbers.
    Float {
        /// The smallest.
        low: f64,
        /// The largest.
        high: f64,
        /// The distance between neighbours; `None`: all numbers between the ends.
        step: Option<f64>,
        /// Whether they are drawn uniformly in their logarithm. Excludes a step.
        log: bool,
    },
    /// Integers.
    Integer {
        /// The smallest.
        low: i64,
        /// The largest.
        high: i64,
        /// The distance between neighbours.
        step: i64,
        /// Whether they are drawn uniformly in their logarithm. Excludes a step above 1.
        log: bool,
    },
    /// A choice of some, without an order.
    Choice(Vec<Choice>),
}

/// A value of [`Domain::Choice`].
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// `true` or `false`.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A number.
    Number(f64),
    /// A word.
    Text(String),
}

/// One value for each active parameter, by name: the number itself, or the index of the choice.
pub type Point = BTreeMap<String, f64>;

use oomph_core::printable;

/// Why parameters are no search space, a point is none of it, or rungs are impossible.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SearchError {
    /// There is nothing to search.
    #[error("the search space has no parameters")]
    Empty,
    /// Two parameters have one name.
    #[error("the parameter `{}` is there twice", printable(name))]
    Twice {
        /// The name.
        name: String,
    },
    /// An end of a range is infinite or NaN.
    #[error("`{}` has the bounds {low} and {high}; expected finite numbers", printable(name))]
    NotFinite {
        /// The parameter.
        name: String,
        /// The lower bound.
        low: f64,
        /// The upper bound.
        high: f64,
    },
    /// The range is empty.
    #[error("`{}` has `low` = {low} above `high` = {high}", printable(name))]
    LowAboveHigh {
        /// The parameter.
        name: String,
        /// The lower bound.
        low: f64,
        /// The upper bound.
        high: f64,
    },
    /// A logarithm is taken of 0 or less.
    #[error("`{}` has `log = true` and `low` = {low}; expected a `low` above 0", printable(name))]
    LogOfLow {
        /// The parameter.
        name: String,
        /// The lower bound.
        low: f64,
    },
    /// A logarithmic range has a step.
    #[error("`{}` has `log = true` and a step of {step}; expected one of them", printable(name))]
    LogWithStep {
        /// The parameter.
        name: String,
        /// The step.
        step: f64,
    },
    /// The step is not above 0.
    #[error("`{}` has a step of {step}; expected a step above 0", printable(name))]
    Step {
        /// The parameter.
        name: String,
        /// The step.
        step: f64,
    },
    /// The steps miss the upper end.
    #[error(
        "`{}` has a step of {step}, which from {low} does not lead to {high}; expected `high` = {}",
        printable(name),
        .low + ((.high - .low) / .step).floor() * .step
    )]
    StepMissesHigh {
        /// The parameter.
        name: String,
        /// The lower bound.
        low: f64,
        /// The upper bound.
        high: f64,
        /// The step.
        step: f64,
    },
    /// An integer has no exact floating-point number.
    #[error("`{}` has the bound {bound}; expected integers of at most 2^53", printable(name))]
    IntegerTooLarge {
        /// The parameter.
        name: String,
        /// The bound.
        bound: i64,
    },
    /// A choice of nothing.
    #[error("`{}` has no choices; expected at least one", printable(name))]
    NoChoice {
        /// The parameter.
        name: String,
    },
    /// Two choices are equal.
    #[error("`{}` has the choice `{}` twice", printable(name), printable(choice))]
    ChoiceTwice {
        /// The parameter.
        name: String,
        /// The choice.
        choice: String,
    },
    /// A condition names no parameter of the space.
    #[error("`{}` depends on `{}`, which is not searched", printable(name), printable(on))]
    UnknownCondition {
        /// The parameter.
        name: String,
        /// The parameter that its condition names.
        on: String,
    },
    /// A condition names a range.
    #[error(
        "`{}` depends on `{}`, which is a range; expected a list of choices",
        printable(name),
        printable(on)
    )]
    ConditionOnRange {
        /// The parameter.
        name: String,
        /// The parameter that its condition names.
        on: String,
    },
    /// A condition names no choices, or a choice that is not there.
    #[error(
        "`{}` depends on the choices {choices:?} of `{}`; expected at least one of 0 to {}",
        printable(name),
        printable(on),
        count - 1
    )]
    ConditionChoices {
        /// The parameter.
        name: String,
        /// The parameter that its condition names.
        on: String,
        /// The indices of the choices.
        choices: Vec<usize>,
        /// The number of choices that there are.
        count: usize,
    },
    /// A parameter depends on itself, by way of others.
    #[error("`{}` depends on itself", printable(name))]
    Cycle {
        /// The parameter.
        name: String,
    },
    /// A point lacks the value of an active parameter.
    #[error("the point has no value for `{}`", printable(name))]
    MissingValue {
        /// The parameter.
        name: String,
    },
    /// A point has a value for a parameter that is not there, or takes no part.
    #[error("the point has a value for `{}`, which takes no part in it", printable(name))]
    ExtraValue {
        /// The parameter.
        name: String,
    },
    /// A point has a value that is not one of its parameter's.
    #[error("the point has {value} for `{}`, which is none of its values", printable(name))]
    ValueOutside {
        /// The parameter.
        name: String,
        /// The value.
        value: f64,
    },
    /// Rungs that are none.
    #[error(
        "rungs from {min} to {max} by factors of {eta}; expected a first rung of 1 to {max}, and a factor of at least 2"
    )]
    Rungs {
        /// The first rung, in steps.
        min: u64,
        /// The factor between rungs.
        eta: u64,
        /// The whole length, in steps.
        max: u64,
    },
}

//! What makes parameters a space.

use super::{Choice, Domain, Parameter};
use crate::SearchError;

/// Integers up to this have exact floating-point numbers.
const MOST_EXACT: i64 = 1 << 53;
/// How far from `high` the last step may end, in steps.
const STEP_TOLERANCE: f64 = 1e-8;

/// Checks parameters that are sorted by name.
pub(super) fn parameters(parameters: &[Parameter]) -> Result<(), SearchError> {
    if parameters.is_empty() {
        return Err(SearchError::Empty);
    }
    if let Some(parameter) =
        parameters.iter().zip(parameters.iter().skip(1)).find_map(|(a, b)| (a.name == b.name).then_some(a))
    {
        return Err(SearchError::Twice { name: parameter.name.clone() });
    }
    parameters.iter().try_for_each(|parameter| domain(&parameter.name, &parameter.domain))?;
    parameters.iter().try_for_each(|parameter| condition(parameter, parameters))
}

fn domain(name: &str, domain: &Domain) -> Result<(), SearchError> {
    match domain {
        Domain::Choice(choices) => self::choices(name, choices),
        Domain::Integer { low, high, .. } => {
            match [*low, *high].into_iter().find(|bound| bound.unsigned_abs() > MOST_EXACT.unsigned_abs()) {
                Some(bound) => Err(SearchError::IntegerTooLarge { name: name.to_owned(), bound }),
                None => range(name, domain),
            }
        }
        Domain::Float { .. } => range(name, domain),
    }
}

fn choices(name: &str, choices: &[Choice]) -> Result<(), SearchError> {
    if choices.is_empty() {
        return Err(SearchError::NoChoice { name: name.to_owned() });
    }
    let twice =
        (1..).zip(choices).find_map(|(next, choice)| choices.get(next..)?.contains(choice).then_some(choice));
    match twice {
        Some(choice) => Err(SearchError::ChoiceTwice { name: name.to_owned(), choice: choice.to_string() }),
        None => Ok(()),
    }
}

fn range(name: &str, domain: &Domain) -> Result<(), SearchError> {
    let name = || name.to_owned();
    let [low, high] = domain.bounds();
    let steps_of_one = matches!(domain, Domain::Integer { step: 1, .. });
    if !low.is_finite() || !high.is_finite() {
        return Err(SearchError::NotFinite { name: name(), low, high });
    }
    if low > high {
        return Err(SearchError::LowAboveHigh { name: name(), low, high });
    }
    if domain.is_log() && low <= 0.0 {
        return Err(SearchError::LogOfLow { name: name(), low });
    }
    let Some(step) = domain.step() else { return Ok(()) };
    if !(step > 0.0 && step.is_finite()) {
        return Err(SearchError::Step { name: name(), step });
    }
    if domain.is_log() && !steps_of_one {
        return Err(SearchError::LogWithStep { name: name(), step });
    }
    let steps = (high - low) / step;
    if (steps - steps.round()).abs() > STEP_TOLERANCE {
        return Err(SearchError::StepMissesHigh { name: name(), low, high, step });
    }
    Ok(())
}

fn condition(parameter: &Parameter, parameters: &[Parameter]) -> Result<(), SearchError> {
    let Some(when) = &parameter.when else { return Ok(()) };
    let [name, on] = [parameter.name.clone(), when.parameter.clone()];
    match parameters.iter().find(|other| other.name == on).map(|other| &other.domain) {
        None => Err(SearchError::UnknownCondition { name, on }),
        Some(Domain::Choice(known)) => {
            let count = known.len();
            match when.choices.is_empty() || when.choices.iter().any(|choice| *choice >= count) {
                true => Err(SearchError::ConditionChoices { name, on, choices: when.choices.clone(), count }),
                false => Ok(()),
            }
        }
        Some(_) => Err(SearchError::ConditionOnRange { name, on }),
    }
}

/// The indices of all parameters, those that others depend on before the others.
pub(super) fn parents_first(parameters: &[Parameter]) -> Result<Vec<usize>, SearchError> {
    let mut order: Vec<usize> = Vec::new();
    while order.len() < parameters.len() {
        let is_placed = |name: &str| order.iter().any(|index| parameters[*index].name == name);
        let is_next = |parameter: &Parameter| {
            !is_placed(&parameter.name)
                && parameter.when.as_ref().is_none_or(|when| is_placed(&when.parameter))
        };
        match parameters.iter().position(is_next) {
            Some(index) => order.push(index),
            None => {
                // One of those left depends on itself: a parameter is left because one that it depends on is left.
                let name = parameters.iter().find(|parameter| !is_placed(&parameter.name));
                return Err(SearchError::Cycle { name: name.map_or_else(String::new, |it| it.name.clone()) });
            }
        }
    }
    Ok(order)
}

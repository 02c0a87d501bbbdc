//! `train.class_weights`.

use std::{collections::BTreeMap, ops::RangeInclusive};

use crate::{
    error::ConfigError,
    section::{Refused, Section, as_list, as_number},
    value::Value,
};

/// `train.class_weights`: how the classes count in the loss.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ClassWeights {
    /// `none`: all samples count alike.
    #[default]
    None,
    /// `balanced`: all classes count alike, however many samples they have.
    Balanced,
    /// A list of weights in the order of the classes.
    Listed(Vec<f64>),
    /// A table of weights by the names of classes. Other classes have weight 1.
    Named(BTreeMap<String, f64>),
}

/// The weights that a class may have. With a weight of 0 a batch could have no weight at all.
const WEIGHTS: RangeInclusive<f64> = 1e-6..=1e6;

const KEY: &str = "class_weights";

const EXPECTED: &str = "`none`, `balanced`, a list of a weight from 1e-6 to 1e6 for each class, or a table of weights by the \
                        names of classes";

impl ClassWeights {
    pub(super) fn read(section: &Section) -> Result<Self, ConfigError> {
        let below = |key: &String| key.strip_prefix(KEY)?.strip_prefix('.').map(str::to_owned);
        let classes: Vec<String> = section.ledger.all_given().keys().filter_map(below).collect();
        if classes.is_empty() {
            return section.or(KEY, Self::None, EXPECTED, as_class_weights);
        }
        let mut named = BTreeMap::new();
        for class in classes {
            if let Some(weight) = section.optional_number(&format!("{KEY}.{class}"), WEIGHTS)? {
                named.insert(class, weight);
            }
        }
        Ok(Self::Named(named))
    }
}

fn as_class_weights(value: &Value) -> Result<ClassWeights, Refused> {
    match value {
        Value::String(text) if text == "none" => Ok(ClassWeights::None),
        Value::String(text) if text == "balanced" => Ok(ClassWeights::Balanced),
        Value::List(weights) if !weights.is_empty() => {
            as_list(value, |weight| as_number(weight, &WEIGHTS)).map(ClassWeights::Listed)
        }
        Value::String(_) | Value::List(_) => Err(Refused::Value),
        _ => Err(Refused::Kind),
    }
}

impl From<ClassWeights> for Value {
    fn from(weights: ClassWeights) -> Self {
        match weights {
            ClassWeights::None => "none".into(),
            ClassWeights::Balanced => "balanced".into(),
            ClassWeights::Listed(weights) => weights.into(),
            // Each weight of a table is a key of its own.
            ClassWeights::Named(named) => named.into_values().collect::<Vec<_>>().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ClassWeights, ConfigError> {
        ClassWeights::read(&Section::from_toml("train", text).expect("valid TOML"))
    }

    #[test]
    fn weights_are_a_word_a_list_or_a_table() {
        assert_eq!(read("").expect("the default"), ClassWeights::None);
        assert_eq!(read("class_weights = 'balanced'").expect("a word"), ClassWeights::Balanced);
        let listed = read("class_weights = [1, 2.5]").expect("a list");
        assert_eq!(listed, ClassWeights::Listed(vec![1.0, 2.5]));
        let named = read("class_weights = { cat = 3, dog = 0.5 }").expect("a table");
        let expected = BTreeMap::from([("cat".to_owned(), 3.0), ("dog".to_owned(), 0.5)]);
        assert_eq!(named, ClassWeights::Named(expected));
    }

    #[test]
    fn other_weights_are_refused_with_their_key() {
        for (text, says) in [
            ("class_weights = 'even'", "train.class_weights"),
            ("class_weights = [1, 0]", "train.class_weights"),
            ("class_weights = []", "train.class_weights"),
            ("class_weights = 3", "train.class_weights"),
            ("class_weights = { cat = -1 }", "train.class_weights.cat"),
            ("class_weights = { cat = 'much' }", "train.class_weights.cat"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(&format!("`{says}`")), "{error}");
        }
    }
}

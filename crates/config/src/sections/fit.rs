//! `memory.fit` and `memory.allow`.

use crate::{
    error::ConfigError,
    section::{Refused, Section, as_items, name_of},
    value::Value,
};

/// Who chooses the levers that make a training fit its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// `off`: the configuration does, key by key.
    #[default]
    Off,
    /// `auto`: of all combinations of levers that fit by plan, the one with the least planned time.
    Auto,
}

const FITS: [(&str, Fit); 2] = [("off", Fit::Off), ("auto", Fit::Auto)];

impl Fit {
    /// As `memory.fit` has it.
    pub fn name(self) -> &'static str {
        name_of(&FITS, &self)
    }

    pub(crate) fn read(section: &Section) -> Result<Self, ConfigError> {
        section.choice("fit", "off", &FITS)
    }
}

/// The levers that `memory.fit = "auto"` may use although they change the mathematics of a training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allow {
    /// `bf16`: `memory.precision = "bf16"`.
    pub bf16: bool,
    /// `bf16_state`: `optimizer.state = "bf16"`.
    pub bf16_state: bool,
    /// `int8_state`: `optimizer.state = "int8"`.
    pub int8_state: bool,
}

const BF16: &str = "bf16";
const BF16_STATE: &str = "bf16_state";
const INT8_STATE: &str = "int8_state";
const NONE: &str = "none";

impl Allow {
    pub(crate) fn read(section: &Section) -> Result<Self, ConfigError> {
        let expected = "`none`, or a list of `bf16`, `bf16_state` and `int8_state`";
        section.or("allow", Self::default(), expected, |value| {
            let mut allow = Self::default();
            if *value == Value::from(NONE) {
                return Ok(allow);
            }
            let set = |name: &str| match name {
                BF16 => Ok(BF16),
                BF16_STATE => Ok(BF16_STATE),
                INT8_STATE => Ok(INT8_STATE),
                _ => Err(Refused::Value),
            };
            let names = as_items(value, set)?;
            allow.bf16 = names.contains(&BF16);
            allow.bf16_state = names.contains(&BF16_STATE);
            allow.int8_state = names.contains(&INT8_STATE);
            Ok(allow)
        })
    }
}

impl From<Allow> for Value {
    fn from(allow: Allow) -> Self {
        let all = [(allow.bf16, BF16), (allow.bf16_state, BF16_STATE), (allow.int8_state, INT8_STATE)];
        let names: Vec<_> = all.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name).collect();
        if names.is_empty() { Self::from(NONE) } else { Self::from(names) }
    }
}

//! `train.batch`.

use crate::{
    error::ConfigError,
    section::{Refused, Section, as_integer},
    sections::train::MOST_SAMPLES,
    setting::Setting,
    value::Value,
};

/// The size of a batch, as `train.batch` gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GivenBatch {
    Samples(usize),
    Tokens(usize),
}

/// The size of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchSize {
    pub(super) samples: usize,
    /// Its tokens, if they are given.
    pub(super) tokens: Option<usize>,
}

const EXPECTED: &str = "an integer from 1 to 1000000000, or tokens such as `65536 tokens`";

impl BatchSize {
    /// Reads `train.batch`. So many tokens are samples of `data.steps` tokens.
    pub(super) fn read(train: &Section, data: &Section) -> Result<Self, ConfigError> {
        let given = train.or("batch", GivenBatch::Samples(32), EXPECTED, |value| match value {
            Value::String(text) => parse(text).map(GivenBatch::Tokens).ok_or(Refused::Kind),
            samples => as_integer(samples, &(1..=MOST_SAMPLES)).map(GivenBatch::Samples),
        })?;
        match given {
            GivenBatch::Samples(samples) => Ok(Self { samples, tokens: None }),
            GivenBatch::Tokens(tokens) => Self::of_tokens(tokens, train, data),
        }
    }

    fn of_tokens(tokens: usize, train: &Section, data: &Section) -> Result<Self, ConfigError> {
        // The reader of the data knows the default, and reads after this.
        let Some(steps) = data.ledger.given("steps") else {
            let expected = "a number of samples, or `data.steps` to be set too: the tokens of a sample";
            return Err(train.invalid("batch", expected));
        };
        let Ok(steps) = as_integer(&steps.value, &(1..)) else {
            return Err(data.invalid("steps", "an integer of at least 1"));
        };
        let samples = tokens / steps;
        if samples > MOST_SAMPLES {
            return Err(train.invalid("batch", format!("at most {MOST_SAMPLES} samples")));
        }
        if tokens.is_multiple_of(steps) {
            return Ok(Self { samples, tokens: Some(tokens) });
        }
        Err(match train.ledger.given("batch") {
            Some(setting) => {
                ConfigError::BatchTokens { setting: Box::new(setting), steps, below: samples * steps }
            }
            None => train.invalid("batch", "a number of samples"),
        })
    }
}

/// The setting `train.batch`, which is `samples` samples, for messages.
pub(super) fn batch_setting(train: &Section, samples: usize) -> Option<Setting> {
    let setting = train.ledger.setting("batch")?;
    Some(match &setting.value {
        Value::String(tokens) => {
            Setting { value: format!("{tokens}, {samples} samples").into(), ..setting.clone() }
        }
        _ => setting,
    })
}

/// The number of `65536 tokens`, at least 1.
fn parse(text: &str) -> Option<usize> {
    let (count, unit) = text.trim().split_once(char::is_whitespace)?;
    let is_unit = matches!(unit.trim_start(), "token" | "tokens");
    count.parse().ok().filter(|count| is_unit && *count >= 1)
}

impl From<GivenBatch> for Value {
    fn from(batch: GivenBatch) -> Self {
        match batch {
            GivenBatch::Samples(samples) => samples.into(),
            GivenBatch::Tokens(tokens) => format!("{tokens} tokens").into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Change, Config};

    #[test]
    fn so_many_tokens_are_samples_of_the_steps_of_the_data() {
        let load = |batch: &str| {
            let text =
                format!("[train]\nbatch = {batch}\n[data]\nsteps = 256\n[memory]\nmicro_batch = 'auto'");
            Config::from_toml("x.toml", &text).expect("valid")
        };
        let config = load("'65536 tokens'");
        assert_eq!((config.train.batch, config.train.batch_tokens), (256, Some(65_536)));
        assert_eq!(load("'256 token'").train.batch, 1);
        assert_eq!((load("8").train.batch, load("8").train.batch_tokens), (8, None));
        // The written config says what was given, and a change what it changes to.
        assert!(config.to_toml().contains("batch = \"65536 tokens\""), "{}", config.to_toml());
        let changed = config.changed(&[Change::Batch(32)]).expect("valid");
        assert_eq!((changed.train.batch, changed.train.batch_tokens), (32, None));
        let point = config.at_point(&[("train.batch", "512 tokens".into()), ("data.steps", 64usize.into())]);
        assert_eq!(point.expect("valid").train.batch, 8);
    }
}

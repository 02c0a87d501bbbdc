use oomph_config::{ConfigError, Section};

/// The recurrent layers of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Recurrent {
    pub(super) hidden: usize,
    pub(super) layers: usize,
    /// The probability of dropout between layers.
    pub(super) dropout: f64,
}

impl Recurrent {
    /// Reads `hidden`, `layers` and `dropout` of a model with dropout between layers alone.
    pub(super) fn read(settings: &Section) -> Result<Self, ConfigError> {
        let found = Self::read_any(settings)?;
        if found.layers == 1 && found.dropout > 0.0 {
            return Err(settings.invalid("dropout", "0 with one layer, since it drops between layers"));
        }
        Ok(found)
    }

    /// The same for a model with dropout elsewhere too.
    pub(super) fn read_any(settings: &Section) -> Result<Self, ConfigError> {
        Ok(Self {
            hidden: settings.integer("hidden", 128, 1..=65_536)?,
            layers: settings.integer("layers", 1, 1..=64)?,
            dropout: settings.number("dropout", 0.0, 0.0..1.0)?,
        })
    }
}

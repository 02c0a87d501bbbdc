//! The settings, from environment variables.

use std::{env, path::PathBuf};

use crate::{
    card::{CARDS, Card, find},
    faults::Faults,
};

/// What to simulate.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) cards: Vec<Card>,
    pub(crate) mode: Mode,
    pub(crate) faults: Faults,
    pub(crate) report: Option<PathBuf>,
    pub(crate) log: Option<PathBuf>,
    /// The folder of [`crate::kernels`].
    pub(crate) kernels: Option<PathBuf>,
    /// NVIDIA's compiler.
    pub(crate) nvrtc: Option<PathBuf>,
}

/// Whether kernels run, and whether the sectors that they touch are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Compute,
    Sectors,
    Count,
}

impl Mode {
    fn parse(text: &str) -> Result<Self, SettingError> {
        match text {
            "compute" => Ok(Self::Compute),
            "sectors" => Ok(Self::Sectors),
            "count" => Ok(Self::Count),
            _ => Err(SettingError::new("CUDA_SIM_MODE", text, "`compute`, `sectors` or `count`")),
        }
    }
}

/// A variable whose value means nothing.
#[derive(Debug, thiserror::Error)]
#[error("{variable}: `{value}`: expected {expected}")]
pub(crate) struct SettingError {
    variable: &'static str,
    value: String,
    expected: String,
}

impl SettingError {
    pub(crate) fn new(variable: &'static str, value: &str, expected: impl Into<String>) -> Self {
        Self { variable, value: value.to_owned(), expected: expected.into() }
    }
}

/// The most cards of a machine.
const MOST_CARDS: usize = 8;

impl Settings {
    /// Reads the variables of this process.
    pub(crate) fn read() -> Result<Self, SettingError> {
        let text = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let mut cards = cards(&text("CUDA_SIM_CARDS").unwrap_or_else(|| "H100".to_owned()))?;
        if let Some(memory) = text("CUDA_SIM_MEMORY") {
            let memory_bytes = bytes("CUDA_SIM_MEMORY", &memory)?;
            cards.iter_mut().for_each(|card| card.memory_bytes = memory_bytes);
        }
        Ok(Self {
            cards,
            mode: text("CUDA_SIM_MODE").map_or(Ok(Mode::Compute), |mode| Mode::parse(&mode))?,
            faults: Faults::parse(&text("CUDA_SIM_FAULTS").unwrap_or_default())?,
            report: text("CUDA_SIM_REPORT").map(PathBuf::from),
            log: text("CUDA_SIM_LOG").map(PathBuf::from),
            kernels: text("CUDA_SIM_KERNELS").map(PathBuf::from),
            nvrtc: text("CUDA_SIM_NVRTC").map(PathBuf::from),
        })
    }
}

/// `H100`, `T4,A100` or `4xRTX 4090`.
fn cards(text: &str) -> Result<Vec<Card>, SettingError> {
    let known = || {
        let names: Vec<_> = CARDS.iter().map(|card| card.model).collect();
        SettingError::new("CUDA_SIM_CARDS", text, format!("1 to {MOST_CARDS} of {}", names.join(", ")))
    };
    let mut cards = Vec::new();
    for entry in text.split(',') {
        let (count, name) = match entry.trim().split_once(['x', 'X']) {
            Some((count, name)) if number(count).is_some() => (number(count).unwrap_or(1), name),
            _ => (1, entry),
        };
        let card = find(name).ok_or_else(known)?;
        if count == 0 || count > MOST_CARDS as u64 {
            return Err(known());
        }
        cards.extend(std::iter::repeat_n(card.clone(), count as usize));
    }
    if cards.len() > MOST_CARDS { Err(known()) } else { Ok(cards) }
}

pub(crate) fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// `8GiB`, `512MiB`.
pub(crate) fn bytes(variable: &'static str, text: &str) -> Result<u64, SettingError> {
    let expected = || SettingError::new(variable, text, "a size such as `8GiB` or `512MiB`");
    let text = text.trim();
    let (value, shift) = match (text.strip_suffix("GiB"), text.strip_suffix("MiB")) {
        (Some(value), _) => (value, 30),
        (_, Some(value)) => (value, 20),
        _ => return Err(expected()),
    };
    let value = number(value).filter(|value| *value > 0 && *value < 1 << 20).ok_or_else(expected)?;
    Ok(value << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_listed_by_model_and_number() {
        let names =
            |text: &str| -> Vec<&str> { cards(text).unwrap().iter().map(|card| card.model).collect() };
        assert_eq!(names("T4, rtx 4090"), ["T4", "RTX 4090"]);
        assert_eq!(names("3xT4"), ["T4", "T4", "T4"]);
        for wrong in ["", "9xT4", "0xT4", "T5", "5xT4,4xH100"] {
            let error = cards(wrong).unwrap_err().to_string();
            assert!(error.contains("1 to 8 of GTX 1080, T4"), "{error}");
        }
    }

    #[test]
    fn kernels_run_or_are_counted() {
        assert_eq!(Mode::parse("count").unwrap(), Mode::Count);
        assert_eq!(Mode::parse("sectors").unwrap(), Mode::Sectors);
        assert!(Mode::parse("fake").unwrap_err().to_string().contains("CUDA_SIM_MODE: `fake`"));
    }

    #[test]
    fn sizes_have_a_unit() {
        assert_eq!(bytes("X", "8GiB").unwrap(), 8 << 30);
        assert_eq!(bytes("X", " 512MiB").unwrap(), 512 << 20);
        for wrong in ["8", "8GB", "0GiB", "-1GiB"] {
            assert!(bytes("X", wrong).unwrap_err().to_string().contains("expected a size"), "{wrong}");
        }
    }
}

use oomph_config::{ConfigError, Section};

use super::statistics::Statistics;

/// The source of the mean and the standard deviation that normalise pixels.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Normalize {
    /// The training images.
    #[default]
    Auto,
    /// None: pixels are only scaled to [0, 1].
    None,
    /// The user, for pixels scaled to [0, 1].
    Given(Statistics),
}

impl Normalize {
    /// Reads `normalize`, `mean` and `std`. If `mean` and `std` are set, `normalize` defaults to `given`.
    pub(super) fn read(section: &Section, channels: usize) -> Result<Self, ConfigError> {
        let given = Statistics { mean: section.numbers("mean", &[])?, std: section.numbers("std", &[])? };
        let is_given = !given.mean.is_empty() || !given.std.is_empty();
        let [auto, none, given] = [Self::Auto, Self::None, Self::Given(given)];
        let choices = [("auto", &auto), ("none", &none), ("given", &given)];
        let choice = section.choice("normalize", if is_given { "given" } else { "auto" }, &choices)?;
        match choice {
            Self::Auto | Self::None if is_given => {
                Err(section.invalid("normalize", "`given`, since `mean` and `std` are set"))
            }
            Self::Given(_) if !is_given => {
                Err(section.invalid("normalize", "`auto` or `none`, since `mean` and `std` are not set"))
            }
            Self::Given(Statistics { mean, .. })
                if mean.len() != channels || mean.iter().any(|mean| !mean.is_finite()) =>
            {
                Err(section
                    .invalid("mean", format!("{}, together with `std`", one_per_channel(channels, ""))))
            }
            Self::Given(Statistics { std, .. })
                if std.len() != channels || !std.iter().all(|&std| std > 0.0 && std.is_finite()) =>
            {
                Err(section.invalid(
                    "std",
                    format!("{}, together with `mean`", one_per_channel(channels, "positive ")),
                ))
            }
            _ => Ok(choice.clone()),
        }
    }

    /// The statistics to normalise by; `None` for those of the training images.
    pub fn known(&self) -> Option<Statistics> {
        match self {
            Self::Auto => None,
            Self::None => Some(Statistics::default()),
            Self::Given(statistics) => Some(statistics.clone()),
        }
    }
}

fn one_per_channel(channels: usize, kind: &str) -> String {
    match channels {
        1 => format!("a list of one {kind}number, for pixels scaled to [0, 1]"),
        _ => format!("a list of {channels} {kind}numbers, one per channel, for pixels scaled to [0, 1]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Normalize, ConfigError> {
        Normalize::read(&Section::from_toml("data", text)?, 3)
    }

    #[test]
    fn mean_and_std_are_used_where_they_are_given() {
        let given = Normalize::Given(Statistics { mean: vec![0.5, 0.4, 0.3], std: vec![0.1, 0.2, 1.0] });
        for normalize in ["", "normalize = \"given\""] {
            let text = format!("mean = [0.5, 0.4, 0.3]\nstd = [0.1, 0.2, 1.0]\n{normalize}");
            assert_eq!(read(&text).unwrap(), given);
        }
    }

    #[test]
    fn statistics_that_cannot_be_meant_are_refused() {
        for text in [
            "mean = [0.5, 0.5, 0.5]",
            "std = [0.5, 0.5, 0.5]",
            "normalize = \"given\"",
            "normalize = \"auto\"\nmean = [0.5, 0.5, 0.5]\nstd = [0.5, 0.5, 0.5]",
            "mean = [0.5]\nstd = [0.5]",
            "mean = [0.5, 0.5, 0.5]\nstd = [0.5, 0.0, 0.5]",
            "mean = [0.5, 0.5, nan]\nstd = [0.5, 0.5, 0.5]",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}

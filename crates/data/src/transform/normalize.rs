use oomph_config::{ConfigError, Section};

use super::Statistics;

/// Where the mean and the standard deviation that pixels are normalised by come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Normalize {
    /// From the training images.
    #[default]
    Auto,
    /// Nowhere: pixels are only scaled to [0, 1].
    None,
    /// From the user, for pixels scaled to [0, 1].
    Given(Statistics),
}

#[derive(Clone, Copy, PartialEq)]
enum Choice {
    Auto,
    None,
    Given,
}

impl Normalize {
    /// Reads `normalize`, `mean` and `std`. With `mean` and `std` there, `normalize` defaults to `given`.
    pub(super) fn read(section: &Section, channels: usize) -> Result<Self, ConfigError> {
        let mean = section.numbers("mean", &[])?;
        let std = section.numbers("std", &[])?;
        let given = !mean.is_empty() || !std.is_empty();
        let choice = section.choice(
            "normalize",
            if given { "given" } else { "auto" },
            &[("auto", Choice::Auto), ("none", Choice::None), ("given", Choice::Given)],
        )?;
        match choice {
            _ if given && choice != Choice::Given => {
                Err(section.invalid("normalize", "`given` where `mean` and `std` are set"))
            }
            Choice::Auto => Ok(Self::Auto),
            Choice::None => Ok(Self::None),
            Choice::Given if !given => {
                Err(section.invalid("normalize", "`auto` or `none` where `mean` and `std` are not set"))
            }
            Choice::Given if mean.len() != channels || mean.iter().any(|mean| !mean.is_finite()) => {
                Err(section.invalid("mean", format!("{}, beside `std`", one_per_channel(channels, ""))))
            }
            Choice::Given
                if std.len() != channels || !std.iter().all(|&std| std > 0.0 && std.is_finite()) =>
            {
                Err(section
                    .invalid("std", format!("{}, beside `mean`", one_per_channel(channels, "positive "))))
            }
            Choice::Given => Ok(Self::Given(Statistics { mean, std })),
        }
    }

    /// The statistics to normalise by; `compute` gives those of the training images where they are asked for.
    pub(crate) fn statistics<E>(
        &self,
        compute: impl FnOnce() -> Result<Statistics, E>,
    ) -> Result<Statistics, E> {
        match self {
            Self::Auto => compute(),
            Self::None => Ok(Statistics::default()),
            Self::Given(statistics) => Ok(statistics.clone()),
        }
    }
}

fn one_per_channel(channels: usize, kind: &str) -> String {
    match channels {
        1 => format!("a list of one {kind}number, for pixels scaled to [0, 1]"),
        _ => format!("a list of {channels} {kind}numbers, one a channel, for pixels scaled to [0, 1]"),
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

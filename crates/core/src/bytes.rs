use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A count of bytes. Displayed in binary units (KiB, MiB, GiB, TiB), serialized as an integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(u64);

/// Suffixes that [`Bytes`] reads, with the factor of each. A single letter is a binary unit: `8G` is what `nvidia-smi`, `docker` and
/// `systemd` mean by it. A bare number is a count of bytes.
const UNITS: [(&str, u64); 13] = [
    ("KIB", 1 << 10),
    ("MIB", 1 << 20),
    ("GIB", 1 << 30),
    ("TIB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
];

impl Bytes {
    /// `count` bytes.
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// `count` mebibytes.
    pub const fn mib(count: u64) -> Self {
        Self(count << 20)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The difference, at least 0.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            count if count < 1 << 10 => format!("{count} B"),
            count if count < 1 << 20 => scaled(count, 10, "KiB"),
            count if count < 1 << 30 => scaled(count, 20, "MiB"),
            count if count < 1 << 40 => scaled(count, 30, "GiB"),
            count => scaled(count, 40, "TiB"),
        };
        f.pad(&text)
    }
}

/// Three significant digits, as `1.50 GiB`, `15.0 GiB`, `150 GiB`.
fn scaled(count: u64, shift: u32, unit: &str) -> String {
    let value = count as f64 / (1u64 << shift) as f64;
    let decimals = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// The error of [`Bytes::from_str`]: the text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a size; expected a number and a unit, such as `512MiB`, `24GiB` or `8GB`")]
pub struct ParseBytesError {
    text: String,
}

impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParseBytesError { text: text.to_owned() };
        let upper = text.trim().to_ascii_uppercase();
        let (digits, factor) = UNITS
            .iter()
            .find_map(|(suffix, factor)| Some((upper.strip_suffix(suffix)?, *factor)))
            .unwrap_or((upper.as_str(), 1));
        let digits = digits.trim_end().replace('_', "");
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return Err(refused());
        }
        let value = digits.parse::<f64>().map_err(|_| refused())? * factor as f64;
        // 2^63 bytes is beyond any machine and still exact in an f64.
        if value.is_finite() && value < 9.2e18 { Ok(Self(value.round() as u64)) } else { Err(refused()) }
    }
}

/// Saturates at 2^64 − 1.
impl std::ops::Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self(0), |sum, bytes| sum + bytes)
    }
}

/// A number with a comma between thousands: `12,000`.
pub fn grouped(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1_000), number % 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_binary_and_decimal_units() {
        for (text, bytes) in [
            ("0", 0),
            ("17", 17),
            ("1KiB", 1024),
            ("2 MiB", 2 << 20),
            ("24gib", 24 << 30),
            ("1.5GiB", 3 << 29),
            ("8GB", 8_000_000_000),
            ("8G", 8 << 30),
            ("512m", 512 << 20),
            ("1_000B", 1000),
        ] {
            assert_eq!(text.parse(), Ok(Bytes::new(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused() {
        for text in ["", "GiB", "-1GiB", "1..5GiB", "2 GiBs", "1e3", "nan", "inf", "99999999TiB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn display_keeps_three_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (10_234, "9.99 KiB"),
            (10_240, "10.0 KiB"),
            (102_400, "100 KiB"),
            (3 << 29, "1.50 GiB"),
            (5 << 40, "5.00 TiB"),
        ] {
            assert_eq!(Bytes::new(bytes).to_string(), text);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in ".{0,24}") {
            let _ = text.parse::<Bytes>();
        }

        #[test]
        fn a_count_survives_writing_and_reading(count in 0u64..1 << 50) {
            proptest::prop_assert_eq!(count.to_string().parse(), Ok(Bytes::new(count)));
        }
    }
}

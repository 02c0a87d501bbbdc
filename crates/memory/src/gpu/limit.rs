use std::str::FromStr;

use oomph_core::{Bytes, ParseBytesError};

use super::{GpuPeak, UnknownGpu, find};

/// The memory to plan for: `24GiB`, or the name of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuMemory {
    /// The GPU, if one was named.
    pub name: Option<&'static str>,
    /// The usable memory: the given size, or that of the GPU.
    pub limit_bytes: Bytes,
    /// The speed of the named GPU, if its data sheet is in the catalogue.
    pub peak: Option<GpuPeak>,
}

/// The text is neither a size nor a GPU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GpuMemoryError {
    /// It looks like a size, but is none.
    #[error(transparent)]
    Size(#[from] ParseBytesError),
    /// The size is 0.
    #[error("`{text}` is no memory of a GPU; expected more than 0 bytes")]
    Nothing {
        /// The text.
        text: String,
    },
    /// It is a small number, which is neither a size nor a GPU.
    #[error("`{number}` has no unit; expected a size such as `24GiB`, or the name of a GPU")]
    NoUnit {
        /// The number.
        number: u64,
    },
    /// The number of GPUs is 0 or too large.
    #[error("`{text}` is not a number of GPUs; expected 1 to {most}")]
    Count {
        /// The text.
        text: String,
        /// The most GPUs.
        most: usize,
    },
    /// It is not the name of one GPU.
    #[error(transparent)]
    Gpu(#[from] UnknownGpu),
}

impl GpuMemoryError {
    /// The remedy.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Gpu(error) => Some(error.hint()),
            Self::NoUnit { number } => Some(format!("did you mean `{number}GiB`?")),
            Self::Size(_) | Self::Nothing { .. } | Self::Count { .. } => None,
        }
    }
}

impl GpuMemory {
    /// Reads a size or the name of a GPU. A bare number is a GPU (`4090`), never a number of bytes.
    ///
    /// # Errors
    /// If it is neither.
    pub fn parse(text: &str) -> Result<Self, GpuMemoryError> {
        let gpu = match find(text) {
            Ok(gpu) => {
                return Ok(Self { name: Some(gpu.name), limit_bytes: gpu.usable_bytes(), peak: gpu.peak });
            }
            Err(error) => error,
        };
        let starts_with_digit = text.trim().starts_with(|c: char| c.is_ascii_digit());
        match text.parse::<Bytes>() {
            Ok(bytes) if bytes.get() == 0 => Err(GpuMemoryError::Nothing { text: text.trim().to_owned() }),
            Ok(bytes) if has_unit(text) => Ok(Self { name: None, limit_bytes: bytes, peak: None }),
            Err(error) if has_unit(text) && starts_with_digit => Err(error.into()),
            Ok(bytes) if bytes.get() <= MOST_GIB => Err(GpuMemoryError::NoUnit { number: bytes.get() }),
            Ok(_) | Err(_) => Err(gpu.into()),
        }
    }
}

/// A number up to this one, without a unit, is meant in GiB.
const MOST_GIB: u64 = 1024;

/// Whether it ends like a size. `24` alone would mean 24 bytes, hardly the intention.
fn has_unit(text: &str) -> bool {
    text.trim().ends_with(['b', 'B', 'k', 'K', 'm', 'M', 'g', 'G', 't', 'T'])
}

/// The most GPUs of a plan; each is a row of a table.
const MOST: usize = 1024;

/// The GPUs to plan for: `24GiB`, `4x24GiB`, `2xRTX 4090,1x16GiB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiGpu {
    /// The GPUs, at least one.
    pub each: Vec<GpuMemory>,
    /// Whether the text gives the number of GPUs. A single size without a number applies to any number of GPUs.
    pub is_counted: bool,
}

impl FromStr for MultiGpu {
    type Err = GpuMemoryError;

    /// Reads sizes and names of GPUs separated by commas, each with an optional count.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut each = Vec::new();
        let is_counted = text.split(',').count() > 1 || counted(text).is_some();
        for item in text.split(',') {
            let (count, item) = match counted(item) {
                // A count that overflows is too large anyway.
                Some((digits, item)) => (digits.parse().unwrap_or(usize::MAX), item),
                None => (1, item),
            };
            let gpu = GpuMemory::parse(item)?;
            if count == 0 || count > MOST - each.len() {
                return Err(GpuMemoryError::Count { text: text.trim().to_owned(), most: MOST });
            }
            each.extend(std::iter::repeat_n(gpu, count));
        }
        Ok(Self { each, is_counted })
    }
}

/// The digits before an `x`, and the rest.
fn counted(item: &str) -> Option<(&str, &str)> {
    let (digits, rest) = item.split_once(['x', 'X', '×'])?;
    let digits = digits.trim();
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some((digits, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_taken_as_it_is() {
        for (text, bytes) in
            [("8GiB", 8 << 30), ("24 GB", 24_000_000_000), ("512mib", 512 << 20), ("24G", 24 << 30)]
        {
            assert_eq!(
                GpuMemory::parse(text),
                Ok(GpuMemory { name: None, limit_bytes: Bytes::new(bytes), peak: None }),
                "{text}"
            );
        }
    }

    #[test]
    fn a_name_gives_what_is_usable_on_that_gpu() {
        let memory = GpuMemory::parse("4090").unwrap();
        assert_eq!(memory.name, Some("RTX 4090"));
        assert_eq!(memory.limit_bytes, find("RTX 4090").unwrap().usable_bytes());
        assert_eq!(GpuMemory::parse("a100 80gb").unwrap().name, Some("A100 80GB"));
    }

    #[test]
    fn what_is_neither_says_what_it_was_taken_for() {
        for (text, message) in [
            ("0GiB", "`0GiB` is no memory of a GPU; expected more than 0 bytes"),
            ("24", "`24` has no unit; expected a size such as `24GiB`, or the name of a GPU"),
            (
                "1..5GiB",
                "`1..5GiB` is not a size; expected a number and a unit, such as `512MiB`, `24GiB` or `8GB`",
            ),
            ("rtx 9999", "`rtx 9999` is not a GPU of the catalogue"),
            ("a100", "`a100` is ambiguous: `A100 40GB` with 40 GB or `A100 80GB` with 80 GB"),
        ] {
            assert_eq!(GpuMemory::parse(text).unwrap_err().to_string(), message, "{text}");
        }
    }

    fn gib(text: &str) -> (Vec<u64>, bool) {
        let gpus: MultiGpu = text.parse().unwrap();
        let gib = |gpu: &GpuMemory| gpu.limit_bytes.get() / Bytes::mib(1024).get();
        (gpus.each.iter().map(gib).collect(), gpus.is_counted)
    }

    #[test]
    fn gpus_are_counted_and_listed() {
        assert_eq!(gib("24GiB"), (vec![24], false));
        assert_eq!(gib("1x24GiB"), (vec![24], true));
        assert_eq!(gib("4x24GiB"), (vec![24; 4], true));
        assert_eq!(gib("24GiB,16GiB"), (vec![24, 16], true));
        assert_eq!(gib(" 2 x 24GiB , 1×16GiB"), (vec![24, 24, 16], true));
    }

    #[test]
    fn a_name_may_be_counted_and_have_an_x_of_its_own() {
        let gpus: MultiGpu = "2xRTX 4090,RTX 3080 12GB".parse().unwrap();
        let names: Vec<_> = gpus.each.iter().map(|gpu| gpu.name).collect();
        assert_eq!(names, [Some("RTX 4090"), Some("RTX 4090"), Some("RTX 3080 12GB")]);
        assert!(!"RTX 4090".parse::<MultiGpu>().unwrap().is_counted);
    }

    #[test]
    fn no_gpus_and_too_many_are_refused() {
        for (text, message) in [
            ("0x24GiB", "`0x24GiB` is not a number of GPUs; expected 1 to 1024"),
            ("600x8GiB,600x8GiB", "`600x8GiB,600x8GiB` is not a number of GPUs; expected 1 to 1024"),
            (
                "99999999999999999999x8GiB",
                "`99999999999999999999x8GiB` is not a number of GPUs; expected 1 to 1024",
            ),
            ("4x", "`` is not a GPU of the catalogue"),
            ("24GiB,", "`` is not a GPU of the catalogue"),
        ] {
            assert_eq!(text.parse::<MultiGpu>().unwrap_err().to_string(), message, "{text}");
        }
    }
}

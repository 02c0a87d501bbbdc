use std::str::FromStr;

use super::{GpuMemory, GpuMemoryError};

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
    use oomph_core::Bytes;

    use super::*;

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

use std::{fmt, str::FromStr, thread::available_parallelism};

/// A set of cores in the notation of Linux: `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cores(Vec<usize>);

/// The most cores of a list: no kernel has more. A range is written in a few digits, and takes memory for each core.
const MOST: usize = 8192;

/// The error of [`Cores::from_str`]: the text is no list of cores.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a list of at most {MOST} cores such as `0-3,8`")]
pub struct ParseCoresError {
    text: String,
}

impl Cores {
    /// The cores that this process may run on. MPI launchers bind each process to some. If the system does not report them,
    /// all cores from 0.
    pub fn allowed() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let told = list.and_then(|list| list.trim().parse().ok());
        told.unwrap_or_else(|| Self((0..available_parallelism().map_or(1, usize::from)).collect()))
    }

    /// The number of cores.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The number of compute threads for a process on these cores. `cores` are those of all processes of the machine, this
    /// one included. Shared cores are divided evenly. At least 1.
    ///
    /// ```
    /// use oomph_memory::Cores;
    ///
    /// let cores = |text: &str| text.parse::<Cores>();
    /// // Two processes that may run anywhere, and two that are bound to halves.
    /// assert_eq!(cores("0-7")?.threads(&[cores("0-7")?, cores("0-7")?]), 4);
    /// assert_eq!(cores("0-3")?.threads(&[cores("0-3")?, cores("4-7")?]), 4);
    /// # Ok::<(), oomph_memory::ParseCoresError>(())
    /// ```
    pub fn threads(&self, processes: &[Self]) -> usize {
        let sharing = |core| processes.iter().filter(|other| other.0.contains(core)).count().max(1);
        let share: f64 = self.0.iter().map(|core| 1.0 / sharing(core) as f64).sum();
        // Thirds add up to a little less than one.
        ((share + 1e-6) as usize).max(1)
    }
}

impl FromStr for Cores {
    type Err = ParseCoresError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParseCoresError { text: text.to_owned() };
        let number = |text: &str| text.parse::<usize>().map_err(|_| refused());
        let mut cores = Vec::new();
        for range in text.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let range = number(first)?..=number(last)?;
            let more = range.end().saturating_sub(*range.start());
            if more >= MOST - cores.len() {
                return Err(refused());
            }
            cores.extend(range);
        }
        Ok(Self(cores))
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores: Vec<_> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&cores.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(text: &str) -> Cores {
        text.parse().unwrap()
    }

    #[test]
    fn lists_are_read_and_written() {
        assert_eq!(cores("0-3,8,10-11").to_string(), "0,1,2,3,8,10,11");
        assert_eq!(cores(&cores("0-3,8").to_string()), cores("0-3,8"));
        for text in ["", "a", "1-", "-1", "1,,2"] {
            assert!(text.parse::<Cores>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_list_beyond_all_machines_is_refused_before_it_takes_memory() {
        assert_eq!(cores("0-8191").count(), MOST);
        for text in ["0-8192", "0-8191,8192", "0-18446744073709551615", "5,1-9000000000"] {
            assert!(text.parse::<Cores>().is_err(), "{text}");
        }
    }

    #[test]
    fn processes_share_the_cores_that_they_may_run_on() {
        let threads = |own: &str, all: &[&str]| {
            cores(own).threads(&all.iter().map(|text| cores(text)).collect::<Vec<_>>())
        };
        assert_eq!(threads("0-1", &["0-1"]), 2);
        // More processes than cores.
        assert_eq!(threads("0-1", &["0-1"; 4]), 1);
        assert_eq!(threads("0-2", &["0-2"; 3]), 1);
        // Two on each of two sockets.
        assert_eq!(threads("8-15", &["0-7", "0-7", "8-15", "8-15"]), 4);
        // One thread bound to a core, and one that may run on any core.
        assert_eq!(threads("0-3", &["0-3", "0"]), 3);
    }

    #[test]
    fn this_process_may_run_somewhere() {
        assert!(Cores::allowed().count() >= 1);
    }
}

use std::{
    fs, io,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use oomph_core::{
    files::{Existing, write_file},
    read_text,
};
use oomph_plan::time::{Measured, Sample, Work};
use serde::{Deserialize, Serialize};

use crate::MachineKey;

/// The version of the file.
const FORMAT: u32 = 1;

/// The folder of calibrations within a cache.
const FOLDER: &str = "calibrations";

/// How fast a machine runs the kernels of a training.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The machine.
    pub machine: MachineKey,
    /// Seconds that an operation of a training takes beside its kernel.
    pub overhead_seconds: f64,
    /// Measured kernels.
    pub samples: Vec<Sample>,
}

/// Why a calibration was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// The file cannot be read or written.
    #[error("calibration `{}`: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
    /// The file is none of this version.
    #[error("`{}` is not a calibration of this version of oomph: {reason}", path.display())]
    Contents {
        /// The file.
        path: PathBuf,
        /// The first defect.
        reason: String,
    },
}

impl CalibrationError {
    /// What the user can do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::File { .. } => None,
            Self::Contents { .. } => Some("`oomph calibrate` measures again and writes a new file"),
        }
    }
}

/// A calibration that was measured elsewhere. Its times are not those of this machine, but nearly in proportion to them.
pub fn reference() -> &'static Calibration {
    static REFERENCE: OnceLock<Calibration> = OnceLock::new();
    REFERENCE.get_or_init(|| {
        // A test reads it.
        Calibration::parse(include_str!("reference.json")).expect("the reference is a calibration")
    })
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    format: u32,
    machine: MachineKey,
    overhead_seconds: f64,
    samples: Vec<StoredSample>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSample {
    kind: String,
    sizes: Vec<f64>,
    arithmetic: f64,
    bytes: f64,
    mapped: f64,
    seconds: f64,
}

impl Calibration {
    /// The speeds to plan with.
    pub fn speeds(&self) -> Measured {
        Measured::new(&self.samples, self.overhead_seconds)
    }

    /// The file of a machine's calibration in a cache.
    pub fn path(cache: &Path, machine: &MachineKey) -> PathBuf {
        cache.join(FOLDER).join(machine.file_name())
    }

    /// The calibration of a machine in a cache. `None` if there is none, or if it is of another machine or version.
    pub fn of(cache: &Path, machine: &MachineKey) -> Option<Self> {
        // What is damaged is measured again.
        Self::read(&Self::path(cache, machine)).ok().filter(|found| found.machine == *machine)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If the file cannot be read, or is no calibration.
    pub fn read(path: &Path) -> Result<Self, CalibrationError> {
        let failed = |reason| CalibrationError::File { path: path.to_owned(), reason };
        let text = read_text(path).map_err(failed)?;
        Self::parse(&text).map_err(|reason| CalibrationError::Contents { path: path.to_owned(), reason })
    }

    /// Makes the folder of a file that will be written.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn make_folder(path: &Path) -> Result<(), CalibrationError> {
        let failed = |reason| CalibrationError::File { path: path.to_owned(), reason };
        match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            Some(folder) => fs::create_dir_all(folder).map_err(failed),
            None => Ok(()),
        }
    }

    /// Writes a file, complete or not at all.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), CalibrationError> {
        let failed = |reason| CalibrationError::File { path: path.to_owned(), reason };
        Self::make_folder(path)?;
        let text = self.text();
        write_file(path, Existing::Replace, |file| file.write_all(text.as_bytes()))
            .map_err(|reason| failed(reason.into()))
    }

    /// One sample a line.
    fn text(&self) -> String {
        let samples: Vec<String> = self.samples.iter().map(stored).collect();
        // Numbers and strings always have a JSON text.
        let machine = serde_json::to_string(&self.machine).unwrap_or_default();
        format!(
            "{{\"format\": {FORMAT},\n\"machine\": {machine},\n\"overhead_seconds\": {:e},\n\"samples\": [\n{}\n]}}\n",
            self.overhead_seconds,
            samples.join(",\n")
        )
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let stored: Stored = serde_json::from_str(text).map_err(|reason| reason.to_string())?;
        if stored.format != FORMAT {
            return Err(format!("its format is {}, not {FORMAT}", stored.format));
        }
        if !SECONDS.contains(&stored.overhead_seconds) {
            return Err(format!(
                "`overhead_seconds` is {:e}, {}",
                stored.overhead_seconds,
                in_words(&SECONDS)
            ));
        }
        if stored.samples.is_empty() {
            return Err("it has no `samples`".to_owned());
        }
        let sample = |stored: StoredSample| {
            let StoredSample { kind, sizes, arithmetic, bytes, mapped, seconds } = stored;
            let refused = |field: &str, value: f64, range: &RangeInclusive<f64>| {
                Err(format!("`{field}` of a sample of `{kind}` is {value:e}, {}", in_words(range)))
            };
            if sizes.is_empty() {
                return Err(format!("a sample of `{kind}` has no `sizes`"));
            }
            let fields = sizes.iter().map(|size| ("sizes", *size, &AMOUNT));
            let fields = fields.chain([("bytes", bytes, &AMOUNT), ("seconds", seconds, &SECONDS)]);
            // A kernel may have no arithmetic, and map no memory.
            let others = [("arithmetic", arithmetic), ("mapped", mapped)].into_iter();
            let others =
                others.filter(|(_, value)| *value != 0.0).map(|(field, value)| (field, value, &AMOUNT));
            for (field, value, range) in fields.chain(others) {
                if !range.contains(&value) {
                    return refused(field, value, range);
                }
            }
            Ok(Sample { work: Work { kind, sizes, arithmetic, bytes, mapped }, seconds })
        };
        Ok(Self {
            machine: stored.machine,
            overhead_seconds: stored.overhead_seconds,
            samples: stored.samples.into_iter().map(sample).collect::<Result<_, _>>()?,
        })
    }
}

/// What an operation may take: any kernel of a training takes less than an hour.
const SECONDS: RangeInclusive<f64> = 1e-12..=3600.0;

/// Sizes, bytes and multiplications: with such numbers no time overflows.
const AMOUNT: RangeInclusive<f64> = 1.0..=1e18;

fn in_words(range: &RangeInclusive<f64>) -> String {
    format!("not from {:e} to {:e}", range.start(), range.end())
}

fn stored(Sample { work, seconds }: &Sample) -> String {
    let Work { kind, sizes, arithmetic, bytes, mapped } = work.clone();
    let stored = StoredSample { kind, sizes, arithmetic, bytes, mapped, seconds: *seconds };
    serde_json::to_string(&stored).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration() -> Calibration {
        let machine = MachineKey { processor: "a processor".into(), threads: 2, version: "1".into() };
        let work =
            Work { kind: "add".into(), sizes: vec![4096.0], arithmetic: 0.0, bytes: 4096.0, mapped: 0.0 };
        Calibration { machine, overhead_seconds: 1e-6, samples: vec![Sample { work, seconds: 2.5e-6 }] }
    }

    #[test]
    fn a_calibration_is_found_for_its_machine_alone() {
        let cache = tempfile::tempdir().unwrap();
        let written = calibration();
        written.write(&Calibration::path(cache.path(), &written.machine)).unwrap();
        assert_eq!(Calibration::of(cache.path(), &written.machine), Some(written.clone()));
        let more_threads = MachineKey { threads: 3, ..written.machine.clone() };
        let later = MachineKey { version: "2".into(), ..written.machine.clone() };
        assert_eq!(
            [more_threads, later].map(|machine| Calibration::of(cache.path(), &machine)),
            [None, None]
        );
        let left: Vec<_> = fs::read_dir(cache.path().join(FOLDER)).unwrap().collect();
        assert_eq!(left.len(), 1);
    }

    #[test]
    fn the_reference_is_a_calibration() {
        assert!(reference().samples.len() > 100);
    }

    #[test]
    fn other_contents_are_refused() {
        let text = calibration().text();
        for (from, to, reason) in [
            ("\"format\": 1", "\"format\": 2", "its format is 2, not 1"),
            ("1e-6", "-1.0", "`overhead_seconds` is -1e0"),
            ("2.5e-6", "0", "`seconds` of a sample of `add` is 0e0"),
            ("\"bytes\"", "\"bits\"", "unknown field `bits`"),
        ] {
            let refused = Calibration::parse(&text.replace(from, to)).unwrap_err();
            assert!(refused.starts_with(reason), "{refused}");
        }
    }
}

//! Runs other programs for tests, and reports tests that skip because this machine lacks something.
//!
//! A test calls [`skip`] and returns. The line bypasses the capture of the test harness, so that a green run cannot
//! hide it. Where `OOMPH_SKIPS` names a file, `skip` appends the line there as well. `.ci/run` reads that file and
//! fails where it could have installed what was missing.
//!
//! ```no_run
//! use oomph_test_support::{Missing, skip};
//!
//! let has_mpirun = false;
//! if !has_mpirun {
//!     skip(Missing::Mpirun);
//! }
//! ```
//!
//! [`browse`] and its neighbours find Python and a browser, and skip where they are missing.

mod programs;

use std::{
    env,
    fs::OpenOptions,
    io::{self, Write},
    path::Path,
    thread,
};

pub use programs::{browse, browse_with, has_module, output, python, python_with_torch, tool, works};

/// What a test needs and this machine lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// `mpirun` of Open MPI.
    Mpirun,
    /// Chromium or chromedriver.
    Browser,
    /// Python 3.
    Python,
    /// A Python with PyTorch.
    PyTorch,
    /// A Python with Optuna.
    Optuna,
    /// A Python with MLflow.
    Mlflow,
    /// A Python with all of MLflow. `mlflow-skinny` has no UI.
    MlflowUi,
    /// A Python with ONNX and its runtime.
    Onnx,
    /// The photos of `../shared/data`.
    Photos,
    /// Tiny Shakespeare, of `../shared/data`.
    Shakespeare,
    /// An NVIDIA GPU.
    Gpu,
    /// A machine without an NVIDIA GPU.
    MachineWithoutGpu,
}

impl Missing {
    /// Whether `.ci/run` can provide it.
    fn is_installable(self) -> bool {
        matches!(self, Self::Mpirun | Self::Browser | Self::Python)
    }

    fn says(self) -> &'static str {
        match self {
            Self::Mpirun => "`mpirun` is not installed",
            Self::Browser => "Chromium or chromedriver is not installed",
            Self::Python => "Python 3 is not installed",
            Self::PyTorch => "no Python has PyTorch; `OOMPH_TORCH_PYTHON` names one",
            Self::Mlflow => "no Python has MLflow; `OOMPH_MLFLOW_PYTHON` names one",
            Self::MlflowUi => "no Python has all of MLflow; `OOMPH_MLFLOW_PYTHON` names one",
            Self::Onnx => "no Python has ONNX Runtime; `OOMPH_ONNX_PYTHON` names one",
            Self::Optuna => "no Python has Optuna; `OOMPH_OPTUNA_PYTHON` names one",
            Self::Photos => "the photos are not in `../shared/data`",
            Self::Shakespeare => "the text `tinyshakespeare.txt` is not in `../shared/data`",
            Self::Gpu => "this machine has no NVIDIA GPU",
            Self::MachineWithoutGpu => "this machine has an NVIDIA GPU",
        }
    }
}

/// Prints `skipped: …` on standard error and appends it to the file in `OOMPH_SKIPS`.
///
/// The line in the file starts with `installable` or `absent`, which tells `.ci/run` whether it could have run the test.
///
/// # Panics
///
/// If the file in `OOMPH_SKIPS` cannot be written: a lost line would hide the skip.
pub fn skip(missing: Missing) {
    let line = line(missing);
    // Not `eprintln!`, which the test harness captures. A closed standard error is no reason to fail.
    let _ = writeln!(io::stderr(), "skipped: {line}");
    if let Some(path) = env::var_os("OOMPH_SKIPS") {
        let written = append(Path::new(&path), &format!("{} {line}\n", class(missing)));
        written.unwrap_or_else(|error| panic!("cannot write `{}`: {error}", path.display()));
    }
}

fn class(missing: Missing) -> &'static str {
    if missing.is_installable() { "installable" } else { "absent" }
}

/// The harness names each thread after its test.
fn line(missing: Missing) -> String {
    let thread = thread::current();
    format!("{}: {}", thread.name().unwrap_or("a test"), missing.says())
}

fn append(path: &Path, line: &str) -> io::Result<()> {
    // One write a line: tests append at the same time.
    OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_test_and_what_is_missing() {
        let expected = "tests::a_line_names_the_test_and_what_is_missing: `mpirun` is not installed";
        assert_eq!(line(Missing::Mpirun), expected);
        assert_eq!((class(Missing::Mpirun), class(Missing::Photos)), ("installable", "absent"));
    }

    #[test]
    fn lines_are_appended() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("skips");
        for line in ["one\n", "two\n"] {
            append(&path, line).expect("a writable file");
        }
        assert_eq!(std::fs::read_to_string(&path).expect("the file"), "one\ntwo\n");
    }
}

//! Finds and runs other programs.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{Missing, skip};

/// A script of `tools/`.
pub fn tool(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(name)
}

/// Whether a command starts and succeeds.
pub fn works(command: &mut Command) -> bool {
    let command = command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs a command, and returns its standard output.
///
/// # Panics
///
/// If it fails, with its output.
pub fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out
}

/// A Python 3, if there is one.
pub fn python() -> Option<PathBuf> {
    is_installed("python3").then(|| "python3".into())
}

/// A Python that has PyTorch: `OOMPH_TORCH_PYTHON`, or the usual one.
pub fn python_with_torch() -> Option<PathBuf> {
    let named = env::var_os("OOMPH_TORCH_PYTHON").map(PathBuf::from);
    let mut candidates = named.into_iter().chain(["/tmp/torchvenv/bin/python".into(), "python3".into()]);
    // Found without importing it, which takes seconds.
    candidates.find(|python| has_module(python, "torch"))
}

/// Whether a Python has a module.
pub fn has_module(python: impl AsRef<OsStr>, module: &str) -> bool {
    let check = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)";
    works(Command::new(python).args(["-c", check, module]))
}

/// Runs a tool of `tools/` that uses pages in a browser. Skips the test where Python or a browser is missing.
///
/// # Panics
///
/// If the tool finds a mistake, with its words.
pub fn browse<A: AsRef<OsStr>>(tool: &str, arguments: impl IntoIterator<Item = A>) {
    match python() {
        Some(python) => browse_with(python, tool, arguments),
        None => skip(Missing::Python),
    }
}

/// Like [`browse`], with a Python that has what the tool imports.
///
/// # Panics
///
/// If the tool finds a mistake, with its words.
pub fn browse_with<A: AsRef<OsStr>>(
    python: impl AsRef<OsStr>,
    name: &str,
    arguments: impl IntoIterator<Item = A>,
) {
    let driver = env::var_os("OOMPH_CHROMEDRIVER").unwrap_or_else(|| "chromedriver".into());
    if !(is_installed(driver) && ["chromium", "chromium-browser", "google-chrome"].iter().any(is_installed)) {
        return skip(Missing::Browser);
    }
    output(Command::new(python).arg(tool(name)).args(arguments));
}

fn is_installed(program: impl AsRef<OsStr>) -> bool {
    works(Command::new(program).arg("--version"))
}

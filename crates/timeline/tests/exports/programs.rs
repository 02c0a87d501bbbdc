//! Finds and runs other programs.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A script of `tools/`.
pub(crate) fn tool(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools").join(name)
}

/// Whether `command` starts and succeeds.
pub(crate) fn works(command: &mut Command) -> bool {
    let command = command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs `command`. If it fails, shows its output.
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out
}

/// A Python 3, if there is one.
pub(crate) fn python() -> Option<PathBuf> {
    works(Command::new("python3").arg("--version")).then(|| "python3".into())
}

/// A Python that has PyTorch: `OOMPH_TORCH_PYTHON`, or the usual one.
pub(crate) fn python_with_torch() -> Option<PathBuf> {
    let named = env::var_os("OOMPH_TORCH_PYTHON").map(PathBuf::from);
    let candidates = named.into_iter().chain(["/tmp/torchvenv/bin/python".into(), "python3".into()]);
    // Found without importing it, which takes seconds.
    let check = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)";
    candidates.into_iter().find(|python| works(Command::new(python).args(["-c", check])))
}

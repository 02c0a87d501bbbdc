//! Files of weights: those that PyTorch wrote, those that do not fit, and those that mean harm.

mod any_bytes;
mod archive;
mod files;
mod fitting;
mod hostile;

use std::{fs, path::PathBuf};

/// The bytes of a file of `tests/golden`.
fn golden(name: &str) -> Vec<u8> {
    fs::read(golden_path(name)).expect("the golden file is part of the repository")
}

fn golden_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

/// One network in every kind of file there is, and a module that is refused.
const GOLDEN: [&str; 7] = [
    "weights_zip.pth",
    "weights_legacy.pth",
    "weights_protocol_4.pth",
    "weights_nested_half.pth",
    "weights_views_double.pth",
    "weights_bfloat16.safetensors",
    "weights_module.pth",
];

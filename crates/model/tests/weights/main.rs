//! Weight files: written by PyTorch, not fitting, hostile.

mod any_bytes;
mod archive;
mod files;
mod fitting;
mod forms;
mod hostile;

use std::{fs, path::PathBuf};

/// The bytes of a file in `tests/golden`.
fn golden(name: &str) -> Vec<u8> {
    fs::read(golden_path(name)).expect("the golden file is part of the repository")
}

fn golden_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

/// One network in every format, and a pickled module, which is refused.
const GOLDEN: [&str; 7] = [
    "weights_zip.pth",
    "weights_legacy.pth",
    "weights_protocol_4.pth",
    "weights_nested_half.pth",
    "weights_views_double.pth",
    "weights_bfloat16.safetensors",
    "weights_module.pth",
];

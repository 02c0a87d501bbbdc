use std::path::{Path, PathBuf};

use crate::check::Check;

const NAME: &str = "CUDA toolkit";

/// The places where Burn looks for the toolkit without CUDA_PATH (cubecl-cuda, `lib.rs`, `install::cuda_path`): the path
/// that must exist, and the toolkit's folder.
const PLACES: [(&str, &str); 3] =
    [("usr/local/cuda", "usr/local/cuda"), ("opt/cuda", "opt/cuda"), ("usr/bin/nvcc", "usr")];

/// The headers that kernels include: half precision, and matrix products on tensor cores.
const HEADERS: [&str; 3] = ["cuda_fp16.h", "cuda_bf16.h", "mma.h"];

/// Checks the toolkit's folder, without which Burn panics when it compiles a kernel, and the headers in it.
pub(super) fn toolkit(root: &Path, cuda_path: Option<&Path>) -> Check {
    let found = match cuda_path {
        Some(path) => Some(path.to_owned()),
        None => PLACES.iter().find(|(sign, _)| root.join(sign).exists()).map(|(_, folder)| root.join(folder)),
    };
    let Some(folder) = found else {
        return Check::problem(
            NAME,
            "not found, so no kernel can be compiled: CUDA_PATH is not set, and `/usr/local/cuda`, `/opt/cuda` and \
             `/usr/bin/nvcc` do not exist",
            "install the toolkit, or set CUDA_PATH to the folder that contains `include/cuda_fp16.h`",
        );
    };
    let include: PathBuf = folder.join("include");
    let missing: Vec<_> = HEADERS.iter().filter(|header| !include.join(header).exists()).collect();
    if missing.is_empty() {
        return Check::ok(NAME, format!("headers in `{}`", include.display()));
    }
    let missing = missing.iter().map(|header| format!("`{header}`")).collect::<Vec<_>>().join(", ");
    Check::warning(
        NAME,
        format!(
            "{missing} not found in `{}`; kernels in half precision cannot be compiled",
            include.display()
        ),
        "set CUDA_PATH to a folder that contains `include/cuda_fp16.h`, or install the toolkit's development files",
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::check::CheckState;

    use super::*;

    #[test]
    fn the_toolkit_is_where_burn_looks() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        assert_eq!(toolkit(root.path(), None).state, CheckState::Problem);
        fs::create_dir_all(at("usr/bin")).unwrap();
        fs::write(at("usr/bin/nvcc"), "").unwrap();
        let check = toolkit(root.path(), None);
        assert_eq!(check.state, CheckState::Warning);
        assert!(check.finding.contains("`cuda_fp16.h`, `cuda_bf16.h`, `mma.h` not found in"), "{check:?}");
        fs::create_dir_all(at("usr/local/cuda/include")).unwrap();
        for header in HEADERS {
            fs::write(at("usr/local/cuda/include").join(header), "").unwrap();
        }
        let check = toolkit(root.path(), None);
        assert_eq!((check.state, check.finding.contains("usr/local/cuda/include")), (CheckState::Ok, true));
    }

    #[test]
    fn the_variable_comes_first() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("usr/local/cuda")).unwrap();
        let check = toolkit(root.path(), Some(Path::new("/nowhere")));
        assert!(check.finding.contains("`/nowhere/include`"), "{check:?}");
    }
}

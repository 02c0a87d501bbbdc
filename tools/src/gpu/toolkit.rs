//! NVIDIA's run-time compiler, the headers that kernels include and the assembler `ptxas`, from PyPI. They need no GPU.

use std::{
    error::Error,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

/// A version of CUDA.
pub(super) struct Toolkit {
    /// Its major version, which chooses it.
    pub(super) major: &'static str,
    /// Its version, as shown.
    pub(super) version: &'static str,
    /// The packages, in versions that were used together.
    packages: &'static [&'static str],
    /// Within the folder of the packages: the compiler's library and the assembler.
    compiler: &'static str,
    assembler: &'static str,
    /// Folders of headers that are linked into one, as a toolkit has them; none if the packages have one folder.
    headers: &'static [&'static str],
}

/// The versions, the first by default.
pub(super) const TOOLKITS: [Toolkit; 2] = [
    Toolkit {
        major: "12",
        version: "12.9",
        packages: &[
            "nvidia-cuda-nvrtc-cu12==12.9.86",
            "nvidia-cuda-runtime-cu12==12.9.79",
            "nvidia-cuda-nvcc-cu12==12.9.86",
            "nvidia-cuda-cccl-cu12==12.9.27",
        ],
        compiler: "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
        assembler: "nvidia/cuda_nvcc/bin/ptxas",
        headers: &["nvidia/cuda_runtime/include", "nvidia/cuda_nvcc/include"],
    },
    Toolkit {
        major: "13",
        version: "13.5",
        packages: &[
            "nvidia-cuda-nvrtc==13.5.37",
            "nvidia-cuda-runtime==13.5.37",
            "nvidia-cuda-nvcc==13.5.37",
            "nvidia-cuda-cccl==13.3.5.0.6",
            "nvidia-cuda-crt==13.5.37",
        ],
        compiler: "nvidia/cu13/lib/libnvrtc.so.13",
        assembler: "nvidia/cu13/bin/ptxas",
        headers: &[],
    },
];

/// An installed toolkit.
pub(super) struct Installed {
    /// NVRTC's library.
    pub(super) compiler: PathBuf,
    /// `ptxas`.
    pub(super) assembler: PathBuf,
    /// The folder for `CUDA_PATH`, with `include` in it.
    pub(super) cuda: PathBuf,
}

/// The toolkit of that major version.
pub(super) fn find(major: &str) -> Result<&'static Toolkit, String> {
    let known = || TOOLKITS.iter().map(|toolkit| toolkit.major).collect::<Vec<_>>().join(" or ");
    let found = TOOLKITS.iter().find(|toolkit| toolkit.major == major);
    found.ok_or_else(|| format!("`--toolkit {major}`: expected {}", known()))
}

impl Toolkit {
    /// Installs the packages into `folder`, unless a run before did.
    pub(super) fn installed(&self, folder: &Path) -> Result<Installed, Box<dyn Error>> {
        let is_complete = folder.join("complete");
        if !is_complete.exists() {
            self.install(folder)?;
            fs::write(is_complete, "")?;
        }
        Ok(Installed {
            compiler: folder.join(self.compiler),
            assembler: folder.join(self.assembler),
            cuda: if self.headers.is_empty() { folder.join("nvidia/cu13") } else { folder.join("cuda") },
        })
    }

    fn install(&self, folder: &Path) -> Result<(), Box<dyn Error>> {
        eprintln!("installing the compiler of CUDA {} from PyPI into `{}`", self.version, folder.display());
        fs::create_dir_all(folder)?;
        // Without what they depend on: nvcc would bring a second compiler.
        let status = Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(["--no-deps", "--upgrade", "--target"])
            .arg(folder)
            .args(self.packages)
            .status()
            .map_err(|error| format!("python3 does not start: {error}"))?;
        if !status.success() {
            return Err("pip cannot install NVIDIA's compiler: see its message above".into());
        }
        if self.headers.is_empty() { Ok(()) } else { self.link_headers(folder) }
    }

    /// Links the headers of all packages into one folder, as a CUDA toolkit has them.
    fn link_headers(&self, folder: &Path) -> Result<(), Box<dyn Error>> {
        let include = folder.join("cuda/include");
        // Left by a run that was stopped.
        let _ = fs::remove_dir_all(&include);
        fs::create_dir_all(&include)?;
        for headers in self.headers {
            for entry in fs::read_dir(folder.join(headers))? {
                let entry = entry?;
                if !entry.file_name().to_string_lossy().starts_with("__") {
                    symlink(entry.path(), include.join(entry.file_name()))?;
                }
            }
        }
        symlink(folder.join("nvidia/cuda_cccl/include"), include.join("cccl"))?;
        Ok(())
    }
}

use oomph_doctor::{Check, HAS_CUDA};

/// The version and the features of this build.
pub(super) fn build() -> Check {
    let cuda = if HAS_CUDA { "with CUDA" } else { "for the CPU only" };
    let finding = format!("oomph {}, {cuda}", env!("CARGO_PKG_VERSION"));
    if oomph_memory::is_installed() {
        return Check::ok("build", format!("{finding}, with the memory meter"));
    }
    Check::warning(
        "build",
        format!("{finding}, without the memory meter"),
        "put `oomph::install_meter!();` into the program's `main.rs`: without it, nothing is measured and memory \
         limits have no effect",
    )
}

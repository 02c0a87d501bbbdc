use oomph_memory::health::Check;
use oomph_trainer::HAS_CUDA;

/// This program: its version, and what it was built with.
pub(super) fn build() -> Check {
    let cuda = if HAS_CUDA { "with CUDA" } else { "for the CPU only" };
    let finding = format!("oomph {}, {cuda}", env!("CARGO_PKG_VERSION"));
    if oomph_memory::is_installed() {
        return Check::ok("build", format!("{finding}, measures its memory"));
    }
    Check::warning(
        "build",
        format!("{finding}, does not measure its memory"),
        "put `oomph::install_meter!();` into the program's `main.rs`: without, limits are not kept and figures are \
         absent",
    )
}

//! The `oomph` binary: the library's commands with oomph's own models and data.

oomph::install_meter!();

fn main() -> std::process::ExitCode {
    oomph::run(oomph::Registry::builtin())
}

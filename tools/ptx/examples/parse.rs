//! Says of each PTX file whether all of it can be run, and if not every line that cannot:
//! `cargo run --release -p oomph-ptx --example parse FILE…`.

use oomph_ptx::{Module, PtxError};

fn main() -> Result<(), std::io::Error> {
    for path in std::env::args().skip(1) {
        let mut lines: Vec<String> = std::fs::read_to_string(&path)?.lines().map(str::to_owned).collect();
        let mut refused = 0;
        // An instruction that is refused is taken away, to find the next.
        while let Err(error) = Module::parse(&lines.join("\n")) {
            println!("{path}: {error}");
            refused += 1;
            match error {
                PtxError::Unsupported { line, .. } | PtxError::Operand { line, .. } => {
                    lines[line as usize - 1].clear();
                }
                _ => break,
            }
        }
        if refused == 0 {
            println!("{path}: all of it can be run");
        }
    }
    Ok(())
}

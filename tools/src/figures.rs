//! Prints the figures of a source tree: lines without tests, cycles of files, re-exports, large types, duplicates.
//! Takes two seconds, with duplicates twenty.
//!
//! ```text
//! cargo xtask figures           # of this tree
//! cargo xtask figures FOLDER    # of another checkout
//! ```

use std::{
    path::PathBuf,
    process::{Command, ExitCode},
};

use oomph_tree::{Figures, Tree};

use crate::Outcome;

/// Runs the tool.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let tree = arguments.first().map_or_else(Tree::own, |folder| Tree::new(PathBuf::from(folder)));
    println!("{}", Figures::of(&tree));
    println!("{}", duplicates(&tree));
    Ok(ExitCode::SUCCESS)
}

/// The pairs of places that share code, those marked as boilerplate left out. `duplicates` is a program that only some
/// machines have.
fn duplicates(tree: &Tree) -> String {
    let output = Command::new("duplicates")
        .args(["--seconds", "120", "--most", "200"])
        .current_dir(tree.root())
        .output();
    let Ok(output) = output else { return "duplicates: the program `duplicates` is not installed".into() };
    let text = String::from_utf8_lossy(&output.stdout);
    let is_pair = |line: &&str| line.starts_with('D') && !line.contains(" boilerplate");
    let pairs: Vec<_> = text.lines().filter(is_pair).collect();
    format!("{} pairs of duplicates\n{}", pairs.len(), pairs.join("\n"))
}

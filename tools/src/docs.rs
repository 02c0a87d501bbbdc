//! Writes measured tables and headline figures into README.md and `docs/`. Takes a second.
//!
//! ```text
//! cargo xtask docs            # writes the pages
//! cargo xtask docs --check    # fails where a page differs from docs/tables/
//! ```

use std::{fs, process::ExitCode};

use oomph_tree::{
    Tree,
    tables::{Table, filled},
};

use crate::Outcome;

/// Runs the tool.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let is_check = arguments.iter().any(|argument| argument == "--check");
    let tree = Tree::own();
    let mut wrong = 0;
    for (path, text) in tree.files("", ".md") {
        match filled(&text, |name| Table::read(&tree, name)) {
            Ok(page) if page == text => {}
            Ok(_) if is_check => {
                wrong += 1;
                eprintln!("{path}: differs from docs/tables; run `cargo xtask docs`");
            }
            Ok(page) => {
                fs::write(tree.root().join(&path), page)?;
                println!("wrote {path}");
            }
            Err(errors) => {
                wrong += errors.len();
                errors.iter().for_each(|(line, error)| eprintln!("{path}:{line}: {error}"));
            }
        }
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

//! Renders README.md and `docs/` as a book with search, by mdBook. Takes some seconds.
//!
//! ```text
//! cargo install mdbook --version 0.5.4 --locked
//! cargo xtask book            # the book: target/book/html/index.html
//! ```
//!
//! It fails where a link in the book leads nowhere. `book.toml` has the settings.

use std::{
    io,
    process::{Command, ExitCode},
};

use oomph_tree::{
    Tree,
    book::{Book, broken_links},
};

use crate::Outcome;

/// Runs the tool.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    if let Some(unknown) = arguments.first() {
        return Err(format!("`{unknown}`: `cargo xtask book` takes no argument").into());
    }
    let tree = Tree::own();
    Book::of(&tree).write(&tree, &tree.root().join("target/book/src"))?;
    let status = Command::new("mdbook").arg("build").arg(tree.root()).status().map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => "\n\nhint: `cargo install mdbook --version 0.5.4 --locked`",
            _ => "",
        };
        format!("cannot start `mdbook`: {error}{hint}")
    })?;
    if !status.success() {
        return Err("mdbook failed: see its message above".into());
    }
    let html = tree.root().join("target/book/html");
    let broken = broken_links(&html)?;
    for link in &broken {
        eprintln!("{}: `{}` leads nowhere", link.page.display(), link.target);
    }
    if !broken.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    println!("{}", html.join("index.html").display());
    Ok(ExitCode::SUCCESS)
}
